// Package wire encodes and decodes RoCEv2 packets: headers, opcodes, the invariant CRC,
// management datagrams (MADs) and the messages of the connection manager. Other packages
// implement the protocol.
//
// In this package, a packet is the payload of a UDP datagram:
//
//	BTH (12) | extended headers | payload | pad (0 to 3) | ICRC (4)
//
// The numbers in brackets are lengths in bytes. In the layouts of the headers, each line
// begins with an offset in bytes, and the numbers in brackets are lengths in bits. All
// numbers are big-endian except the ICRC.
//
// Decode checks a received packet. Build lays out a packet to be sent. Both return a
// Packet. The headers of a Packet are pointers into the caller's slice.
//
// A setter stores only the low bits of a value that is too large for its field.
//
// No function of this package allocates memory. After a call, only a Packet still refers
// to the caller's bytes. Only one goroutine at a time may use a value.
//
// Source: InfiniBand Architecture Specification (IBTA), volume 1, chapters 5 (packets),
// 9 (transport), 12 (communication management) and 13 (management datagrams), and its
// annexes A11 (RDMA IP CM service) and A17 (RoCEv2).
package wire
