// Package wire encodes and decodes RoCEv2 packets. It knows headers, opcodes, the
// invariant CRC, management datagrams (MADs) and the messages of the connection manager.
// The protocol itself is implemented in other packages.
//
// In this package, a packet is the payload of a UDP datagram. The numbers are lengths in
// bytes:
//
//	BTH (12) | extended headers | payload | pad (0 to 3) | ICRC (4)
//
// The comments of the headers show their layouts. Each line begins with an offset in
// bytes, and the numbers in parentheses are lengths in bits. All numbers are big-endian
// except the ICRC.
//
// Decode checks a received packet. Build begins a new packet. Both return a Packet, which
// refers to the caller's slice. Its headers are pointers into this slice.
//
// If a value is too large for its field, only its low bits are stored.
//
// No function of this package allocates memory. After a call, only a Packet still refers
// to the caller's bytes. Only one goroutine at a time may use a value.
//
// Source: InfiniBand Architecture Specification (IBTA), volume 1, chapters 5 (packets), 9
// (transport), 12 (communication management) and 13 (management datagrams), and its
// annexes A11 (RDMA IP CM service) and A17 (RoCEv2).
package wire
