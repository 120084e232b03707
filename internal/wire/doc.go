// Package wire encodes and decodes RoCEv2 packets: the headers of the InfiniBand
// transport, their opcodes, the invariant CRC, management datagrams (MADs) and the
// messages of the connection manager. It knows only the formats. The protocol, which says
// when a packet is valid, is in other packages.
//
// In this package, a packet is the payload of a UDP datagram:
//
//	BTH (12) | extended headers | payload | pad (0 to 3) | ICRC (4)
//
// Decode checks a received packet. Build lays out a packet to be sent. Both return a
// Packet, whose headers are views of the caller's bytes. A view is a pointer to an array
// of the header's size, so the length is checked only once, when the view is made. All
// numbers are big-endian except the ICRC.
//
// A setter stores only the low bits of its argument, as many as the field has. It does
// not check the range: the caller must do so where the value enters the program.
//
// No function of this package allocates memory or keeps a reference to its arguments. Its
// types have no locks: only one goroutine at a time may use a value.
//
// Source: InfiniBand Architecture Specification (IBTA), volume 1, chapters 5 (packets), 9
// (transport), 12 (communication management) and 13 (management datagrams), and its
// annexes A11 (RDMA IP CM service) and A17 (RoCEv2).
package wire
