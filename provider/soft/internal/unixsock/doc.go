// Package unixsock has sockets with abstract names: connected Unix sockets of type
// SOCK_SEQPACKET, whose messages are packets. It finds out which user is at the other end
// of a socket, and which user holds a name. See unix(7).
package unixsock
