package access

import "iter"

// LeastUsedOfBusiest selects the connection that is closed to make room for a new one. It
// selects the user who has the most connections in conns; the new connection of newUser
// counts too. Of the connections of that user it returns the one that comes before all
// others. So if a user opens many connections, only connections of that user are closed.
//
// The function user returns the user ID of a connection. The function before reports
// whether the connection a is to be closed before b. If neither of two connections comes
// before the other, the one that conns yields first is selected. LeastUsedOfBusiest
// returns the zero value if conns is empty. It goes through conns twice.
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
