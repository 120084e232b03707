package access

import "iter"

// LeastUsedOfBusiest selects the connection to close for a new connection of newUser. It
// counts the connections of each user, including the new one. Among all connections of
// the users with the most, it selects the first in the order of the parameter before.
//
// The parameter user returns the user of a connection. LeastUsedOfBusiest goes through
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
