// Package udp sends and receives packets of RoCEv2 with UDP sockets.
//
// A Ports has the sockets of a device: for each local address one for connection
// management, and one or more for each shard. A Conn is a shard's part. It belongs to the
// goroutine that drives the shard, like everything that it uses except Ports.
//
// The files stand alone, and each has one means to send or receive faster:
//
//   - batch_unsafe.go: many packets in one system call, and UDP_SEGMENT.
//   - connected.go, ip_id.go: a connected socket for a destination with many packets.
//   - steer.go: the kernel selects the socket of the shard for each packet.
//   - overflow.go: further sockets if one socket drops packets.
//   - receive.go: one packet or a batch in a call, as many as usually wait.
package udp
