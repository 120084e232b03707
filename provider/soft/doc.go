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
// copied once and checked before use. A peer that breaks the protocol costs its
// own connection: the queue pair goes to the error state and its requests are
// flushed.
package soft
