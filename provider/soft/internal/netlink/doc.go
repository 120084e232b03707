// Package netlink asks the kernel questions that one netlink message answers; see
// netlink(7).
package netlink
