//go:build linux

package hostile

import (
	"net/netip"
	"os"
)

// Addr returns an address of 127.0.0.0/8 for process number n of this program. On the
// wire path each process needs its own address, because only one process can have the
// UDP port of an address. Numbers repeat after 254. Another program has another
// process ID and therefore other addresses, except for one program in 16384.
func Addr(n int) netip.Addr { return block(64, byte(1+n%254)) }

// FloodAddr returns the first of 254 addresses for a flood. Addr does not return
// these addresses.
func FloodAddr() netip.Addr { return block(128, 1) }

func block(first, last byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, first + byte(pid>>8&63), byte(pid), last})
}
