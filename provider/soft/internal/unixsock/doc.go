// Package unixsock has Unix sockets with names in the abstract namespace. The sockets
// have the type SOCK_SEQPACKET: they are connected, and each message is one packet. The
// package also finds out which user is at the other end of a connected socket, and which
// user has bound a name. SpareDescriptors keeps descriptors in reserve for the time when
// the process has no others. See unix(7).
package unixsock
