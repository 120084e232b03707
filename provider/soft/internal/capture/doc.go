// Package capture writes the packets of a device to a file in the format pcapng.
//
// A Capture is the file. A Tap takes copies of the packets of one owner, such as a shard. It
// neither blocks nor allocates: it writes whole blocks of the file to a ring of its own, and a
// goroutine of the Capture copies the blocks from all rings to the file. A packet for which
// the ring has no room is dropped and counted.
//
// A packet on the wire path is recorded as it was sent or received. On the local path there
// are no packets. There a Tap gets packets that their path has built for the capture, and an
// RC builds the packets of a reliable connection from the fragments of its messages. A socket
// has no IP and UDP headers, so a Tap makes them up, with the identification to which the ICRC
// of the packet belongs.
//
// Source: draft-ietf-opsawg-pcapng; IBTA vol. 1, chapter 9, and annex A17.
package capture
