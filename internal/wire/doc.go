// Package wire has the formats of RoCEv2: the headers of the InfiniBand
// transport, its opcodes, the invariant CRC, management datagrams and the
// messages of the connection manager. It knows formats only, no protocol: what
// is legal when is the business of the layers above.
//
// A packet here is what UDP carries:
//
//	BTH (12) | extended headers | payload | pad (0 to 3) | ICRC (4)
//
// Decode checks one that came in, Build lays out one to be sent, and both give
// a Packet, whose headers are views into the caller's bytes. A view is a
// pointer to an array of the header's size, so the length is checked once, when
// the view is made, and never again. Numbers are big-endian, all but the ICRC.
//
// Setters keep the low bits that a field has room for. What is out of range is
// to be refused where it enters the program, not here.
//
// Nothing here allocates, and nothing keeps what it is given. Values have no
// locks: one goroutine at a time.
//
// Source: InfiniBand Architecture Specification (IBTA), volume 1, chapters 5
// (packets), 9 (transport), 12 (communication management), 13 (management
// datagrams); its annexes A11 (RDMA IP CM service) and A17 (RoCEv2).
package wire
