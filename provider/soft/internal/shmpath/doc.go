// Package shmpath is the local path of RC queue pairs: reliable connections in shared
// memory. A Conn is the path of one queue pair. Peers has the memory that a shard shares
// with other shards, of this process or another one, by shm.End. What is in the memory is
// the subject of package shm.
//
// # The memory that two shards share
//
// All connections between two shards use one segment, so a connection must never wait
// for another one:
//
//   - A shard consumes every slot at once. If it has no room to answer, the answer
//     waits: the data of a READ in its connection, a notice in a queue. So full rings
//     in both directions can not wait for each other.
//   - An acknowledgement has two positions in the ring; see shm.Ack. Requests before
//     the second one were executed, except those that a notice names. The second
//     position stays behind while notices wait, and the sender consumes the notices
//     before it uses the acknowledgement.
//   - A queue pair without a receive buffer sends the notice Refused with an RNR NAK,
//     and drops the later requests of this connection. After the RNR timer the sender
//     sends all of them again, with the next attempt number. Its send queue keeps the
//     data until the request is executed.
//   - A request is sent only after the notice Ready of the peer's queue pair. A queue
//     pair that is closed or fails sends Stopped, with the position from which on it
//     has executed nothing.
//   - A DREQ comes through a socket, and may overtake notices. Its receiver reports it
//     only after them, if its queue pair has outstanding requests, so that requests
//     which the peer has executed complete with success. It finds out from the counter
//     Changes, which the peer increments before it queues Stopped, and waits for a
//     second at most, because the peer's process may be stopped. A DREP needs no such
//     rule: the queue pair of its receiver is flushed already.
//   - Modify consumes all slots that have arrived before it flushes a queue pair,
//     because an acknowledgement may be valid only after the last of them.
//
// # Regions that two processes map
//
// A region of PD.Alloc with remote access rights is a shm.Region, unless it has huge
// pages or an eighth of the descriptors is in use. A requester executes one-sided
// operations in it itself:
//
//   - Getting it. The first request of a connection for a key is sent to the responder,
//     and after it a slot Share. Only if the responder has executed the request, so
//     that the peer has not guessed the key, it answers with Granted (the rights and
//     the protection domain of its queue pair) and Shared. The descriptor goes through
//     the doorbell.
//   - When. The requester checks key, protection domain, rights and bounds. No earlier
//     request of the queue pair may be outstanding, because a WRITE must not overtake a
//     SEND that gets an RNR NAK. The peer's queue pair must still execute requests:
//     while the requester has consumed fewer notices Stopped and Granted than Changes
//     says, it executes nothing itself.
//   - Waiting. A READ of 64 KiB or more that only earlier requests prevent waits for
//     them. The responder would execute it after them too, and each READ of a series
//     would have to take the slower way because of the one before it.
//   - Otherwise the request is sent, and the responder decides. So errors have the same
//     status as without mapped memory. Requests without data, with immediate data, or
//     of more than 1 MiB are always sent: the first find out whether the peer answers,
//     the second take a receive buffer, and the third would occupy the loop for too
//     long.
//
// The requester checks only before it copies. A check after the copy would tell nothing
// new: an operation that overlaps with the end of a registration or of a queue pair
// counts as executed before that end. A memfd is never used for another registration,
// so such an operation reaches only memory that nobody uses any more.
package shmpath
