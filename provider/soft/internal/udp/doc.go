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
