// Package unixsock opens Unix sockets of type SOCK_SEQPACKET with abstract names
// (unix(7)). User returns the user of a socket. SpareDescriptors keeps file descriptors
// in reserve.
package unixsock
