// Package netlink sends requests to the kernel that are answered by a single netlink
// message; see netlink(7).
package netlink
