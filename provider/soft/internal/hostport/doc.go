// Package hostport has the addresses and ports that IDs of the connection manager bind on
// one host, and the addresses of the host itself.
//
// Every address and port that an ID binds has the name of a socket in the abstract
// namespace of unix(7). An ID reserves its port by binding that name, and a client on the
// same host finds a listener by connecting to it.
package hostport
