// Package netlink sends requests that the kernel answers with one netlink message; see
// netlink(7).
package netlink
