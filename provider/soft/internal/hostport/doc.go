// Package hostport knows the addresses of one host, and reserves addresses and ports for
// IDs of the connection manager. The host is this one or a simulated one.
//
// Each address and port has a name in the abstract namespace of unix(7). An ID reserves
// its port by binding a socket to the name. A client connects to the name of a listener.
package hostport
