// Package hostport reserves addresses and ports for IDs of the connection manager on one
// host.
//
// Each address and port has a name in the abstract namespace of unix(7). An ID reserves
// its port by binding a socket to the name. A client connects to the name of a listener.
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
//	route_mtu.go    MTU of a route
