//go:build linux

package hostile

import (
	"net/netip"
	"os"
)

// Addr is an address of 127.0.0.0/8 for process number n of this program: on the wire
// path one process has the UDP port of an address. Numbers repeat after 254. Other
// programs have other process IDs, and so other addresses, but for one in 16384.
func Addr(n int) netip.Addr { return block(64, byte(1+n%254)) }

// FloodAddr is the first of 254 addresses that Addr does not return, for a flood.
func FloodAddr() netip.Addr { return block(128, 1) }

func block(first, last byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, first + byte(pid>>8&63), byte(pid), last})
}
