// Package hostport has the addresses and ports that IDs of the connection manager bind on
// one host, and finds out which addresses the host has.
//
// For each address and port there is a socket name in the abstract namespace of unix(7).
// An ID reserves its port by binding that name, and a client on the same host finds a
// listener by connecting to that name.
package hostport
