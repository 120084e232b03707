// Package rsocket has the messages of the rsocket protocol, and the rules of its two
// directions. It does no input and output. The protocol is that of rsocket(7) over RoCE:
// a stream of bytes on a reliable connection. The file librdmacm/docs/rsocket of
// rdma-core describes it. The names there are: target SGL for the table, SGE for a
// segment, and iomap for the table of mapped memory.
//
// Each side has a ring of memory, into which the peer writes the bytes of the stream with
// RDMA WRITEs with immediate data. The immediate data says how many bytes were written.
// The ring has two halves. A half that was read is offered to the peer as a Segment: an
// address, a key and a length. Each side also has a table of two segments, into which the
// peer writes the segments that it offers.
//
// A side has credits: the number of data messages that it may still send. The peer raises
// the number when the application has read messages. Messages that are no data need no
// credits.
package rsocket
