package access

import "iter"

// LeastUsedOfBusiest selects the connection to close for a new one of newUser. Of the
// user with the most connections, it returns the one that comes before all others. So a
// user with many connections hurts only itself.
//
// user returns the user of a connection. before reports whether a is closed before b;
// among equals the first in conns is selected. The result is the zero value if conns is
// empty. LeastUsedOfBusiest goes through conns twice.
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
