// Package unixsock opens Unix sockets with abstract names, and sends packets and
// descriptors through them. See unix(7).
package unixsock

// The files of this package, in reading order:
//
//	syscalls_unsafe.go   system calls that allocate nothing
//	peer_name_unsafe.go  name of the peer's socket
//	socket.go            sockets, packets and credentials
//	user.go              user of a socket
//	spare.go             SpareDescriptors
