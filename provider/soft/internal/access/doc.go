// Package access decides which peers may connect to a soft device. Users says which
// users are allowed. UserLimit limits the number of connections of a user. ErrorLimit
// delays peers that have guessed remote keys, or violate the protocol often.
package access

// The files of this package, in reading order:
//
//	source_network.go  networks that count as one source
//	error_limit.go     waiting time for a source with many access errors or violations
//	users.go           which users of the host may connect
//	busiest.go         connection that is closed to make room for another one
//	user_limit.go      number of connections of each user
