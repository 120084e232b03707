// Package unixsock opens Unix sockets of type SOCK_SEQPACKET with abstract names
// (unix(7)). User returns the user of a socket. SpareDescriptors keeps file descriptors
// in reserve.
package unixsock

// The files of this package, in reading order:
//
//	syscalls_unsafe.go   system calls that allocate nothing
//	peer_name_unsafe.go  name of the peer's socket
//	socket.go            sockets, packets and credentials
//	user.go              user of a socket
//	spare.go             SpareDescriptors
