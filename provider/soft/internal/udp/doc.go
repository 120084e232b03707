// Package udp sends and receives packets of RoCEv2 with UDP sockets.
//
// A Ports has the sockets of a device. Each local address has one socket for connection
// management, and one or more sockets for each shard. A Conn sends and receives the
// packets of one shard. Only the goroutine that drives the shard may use the Conn.
//
// These types reduce the cost of a packet:
//
//   - batch: one system call sends or receives many packets, and UDP_SEGMENT sends
//     several packets as one message.
//   - receiver: a system call reads a batch only if several packets usually wait.
//   - merging: the kernel passes several packets of a burst together (UDP_GRO).
//   - connectedSocket: a destination of many packets gets a socket of its own. Over IPv4,
//     an ipIDProbe finds out how the kernel numbers the packets.
//   - localPort: the kernel selects a socket of the right shard for each packet.
//   - directSocket: while all packets come from one source, the shard receives them
//     through a socket that is connected to that source.
//   - overflowSockets: a shard gets more sockets if its socket drops packets.
//   - Conn.Arm: epoll watches the sockets only while the owner may sleep.
package udp

// The files of this package, in reading order:
//
//	watcher.go       what a Conn needs to be woken
//	route.go         Route: the addresses and header fields of packets
//	dest.go          destinations of packets
//	batch_unsafe.go  structures of sendmmsg(2) and recvmmsg(2)
//	drops_unsafe.go  datagrams that the kernel has dropped
//	far_only.go      filter that drops packets of this host
//	socket.go        opening a socket, its options
//	connected.go     sockets that only send, most of them to one destination
//	ip_id.go         how the kernel counts the identification of IPv4 packets
//	send.go          sending many packets with one system call
//	sources.go       senders that a receiver remembers
//	merge.go         whether the kernel merges received packets
//	receive.go       receiving and checking packets
//	steer.go         program that selects the socket of a shard
//	direct_late.go   what waits in a direct socket when another shard begins
//	port.go          Ports: the sockets of the local addresses
//	gsi.go           socket for connection management
//	direct.go        a socket that receives from one source
//	conn.go          Conn: the packets of one shard
//	overflow.go      further sockets for a shard whose socket drops packets
//	drain.go         receiving what has arrived, before timers fire
