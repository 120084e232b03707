// Package udp sends and receives packets of RoCEv2 with UDP sockets.
//
// A Ports has the sockets of a device: for each local address one for connection
// management, and one or more for each shard. A Conn is a shard's part. It belongs to the
// goroutine that drives the shard, like everything that it uses except Ports.
//
// These types reduce the cost of a packet; the comment of each has the measured gain, if
// there is one:
//
//   - batch: many packets in one system call, and UDP_SEGMENT.
//   - receiver: a call reads one packet, or a batch while several wait.
//   - connectedSocket: a destination with many packets has a socket of its own. The
//     identification of its packets over IPv4 is found out by an ipIDProbe.
//   - localPort: the kernel selects the socket of a shard for each packet; see steer.
//   - overflowSockets: a shard gets further sockets if its socket drops packets.
//   - Conn.Arm: epoll watches the sockets only while the owner may sleep.
package udp
