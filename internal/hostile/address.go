//go:build linux

package hostile

import (
	"net/netip"
	"os"
)

// Addr returns an address in 127.0.0.0/8 for process n of a test run. On the wire path,
// each process needs an address of its own. The numbers n and n+254 have the same
// address.
func Addr(n int) netip.Addr { return block(64, byte(1+n%254)) }

// FloodAddr returns the first of 254 consecutive addresses for RoleFlood. Addr never
// returns them.
func FloodAddr() netip.Addr { return block(128, 1) }

func block(first, last byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, first + byte(pid>>8&63), byte(pid), last})
}
