// Package unixsock has Unix sockets with abstract names (unix(7)). Each message is one
// packet (SOCK_SEQPACKET). The package also finds out which user has a socket.
// SpareDescriptors keeps descriptors in reserve.
package unixsock
