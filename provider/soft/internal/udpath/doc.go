// Package udpath is the path of UD queue pairs. The address handle of a datagram decides
// whether it goes over a Unix socket to a queue pair of this host, or in a packet. A Path is
// the path of one queue pair. Sockets has what the UD queue pairs of a shard share.
package udpath
