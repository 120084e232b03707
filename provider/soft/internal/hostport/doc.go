// Package hostport has the addresses and ports that IDs of the connection manager bind on
// one host, and finds out which addresses the host has.
//
// For each address and port there is a socket name in the abstract namespace of unix(7).
// An ID reserves its port by binding that name, and a client on the same host finds a
// listener by connecting to that name.
package hostport

// The files of this package, in reading order:
//
//	host.go         whether an address belongs to this host
//	local_cache.go  which addresses belong to this host, remembered for some time
//	bind_addr.go    addresses to which a listener is bound
//	holder.go       errors that name the user who has bound an address
//	table.go        addresses that sockets of this host have bound
//	reservation.go  Reservation: a port that an ID has
//	free_port.go    choosing a port
//	route.go        queries of the routing table
