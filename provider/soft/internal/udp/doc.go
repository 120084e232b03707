// Package udp sends and receives packets of RoCEv2 with UDP sockets.
//
// A Ports has the sockets of a device: for each local address one for connection
// management, and one or more for each shard. A Conn is the part of one shard. It belongs
// to the goroutine that drives the shard, as do all objects that the Conn uses, except
// Ports.
//
// These types reduce the cost of a packet. The comment of each has the measured gain, if
// there is one:
//
//   - batch: one system call sends or receives many packets, and UDP_SEGMENT sends
//     several in one message.
//   - receiver: a call reads one packet, or a batch if several packets wait.
//   - connectedSocket: a destination of many packets gets a connected socket. Over IPv4,
//     an ipIDProbe finds out the identification that the kernel will write into the
//     packets.
//   - localPort: the kernel selects the shard's socket for each packet; see steer.
//   - overflowSockets: a shard gets further sockets if its socket drops packets.
//   - Conn.Arm: epoll watches the sockets only while the owner may sleep.
package udp
