// Package unixsock has Unix sockets with abstract names. They are connected, and a
// message is one packet (SOCK_SEQPACKET). The package also finds the user of a peer or
// of a name. SpareDescriptors keeps descriptors in reserve. See unix(7).
package unixsock
