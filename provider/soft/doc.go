// Package soft is an RDMA device in software: RC and UD queue pairs, memory
// regions with keys, completion queues and connection management, in pure Go,
// without privileges and without a kernel module.
//
// # Paths
//
// A queue pair learns when it is connected how its peer is reached. On the local
// path both ends are on this host, in one process or in two: they share sealed
// memory with a ring for each direction (segment.go, ring.go, link.go), set up
// over an abstract Unix socket. The queue-pair engine (qp.go, requester.go,
// responder.go) does not know the path; it talks to it through the interface in
// path.go.
//
// On the wire path packets carry the transport of InfiniBand (RoCEv2): wireLink is
// the reliable connection, wirePort the datagrams. They are given packets and the
// shard's timers, and give packets to a packetLink (wire_path.go). Requests have
// places in one sequence that never wraps, and a connection that has lost something
// sets its place back (wire_request.go, wire_answer.go, wire_retry.go); the other
// half carries out what comes in sequence, and remembers what it may be asked for
// again (wire_serve.go, wire_kept.go, wire_respond.go). A READ is asked for in
// pieces, so that its response fits the socket. Sides that have agreed on flow
// control count receive buffers (wire_credit.go); otherwise a receiver without one
// says so. What there is not: congestion control, path migration, memory windows,
// SEND with invalidate.
//
// # Interoperation
//
// The wire path is tried against rxe, the Soft-RoCE of Linux 6.1, with either as
// the one that connects, over IPv4 and IPv6: messages, READ, WRITE and atomics up to
// a mebibyte; private data, refusals, disconnecting, killed processes; retries and
// RNR retries that run out, wrong keys; datagrams and their lookup; with packets
// lost, repeated, reordered and damaged. Of that device it has to be known that
//
//   - its retry count of 7 has no end: a request waits for ever when the peer has gone
//     before the last acknowledgement got through;
//   - for a process that ends without waiting it says goodbye once, which may be lost;
//   - its connection manager makes the ACK timeout 2.1 s, which is how soon it and its
//     peer miss an answer. cm.ID.SetAckTimeout makes it shorter.
//
// No network card has been tried.
//
// # Progress
//
// A shard (shard.go) owns queue pairs, completion queues and timers. In manual
// progress polling a CQ drives its shard, with no other goroutine and no lock; a
// sleeping owner waits on the shard's epoll descriptor, which the peer's doorbell
// makes readable. In automatic progress a goroutine of the shard does the same,
// under a lock that the owner's calls share.
//
// # Trust
//
// Everything that the other process can write (slots, counters, datagrams) is
// copied once and checked before use; so is everything that comes by packet. A
// peer that breaks the protocol costs its own connection: the queue pair goes to
// the error state and its requests are flushed.
package soft
