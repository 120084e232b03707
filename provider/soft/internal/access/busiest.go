package access

import "iter"

// LeastUsedOfBusiest selects the connection to close when newUser opens one more. It
// counts the connections of each user, including the new connection. Among the
// connections of the users with the most connections, it selects the first in the order
// that before(a, b) defines.
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
