package access

import "iter"

// LeastUsedOfBusiest selects the connection to close when newUser needs room for a new
// one. It finds the users with the most connections, counting the new connection too.
// From their connections it selects the one that was used least recently. The callback
// before() reports whether a was used before b.
//
// The callback user() returns the user of a connection. LeastUsedOfBusiest goes through
// conns twice. It returns the zero value if conns is empty.
func LeastUsedOfBusiest[C any](conns iter.Seq[C], newUser uint32, user func(C) uint32, before func(a, b C) bool) (found C) {
	count := map[uint32]int{newUser: 1}
	for c := range conns {
		count[user(c)]++
	}
	most := 0
	for c := range conns {
		if n := count[user(c)]; n > most || n == most && before(c, found) {
			found, most = c, n
		}
	}
	return found
}
