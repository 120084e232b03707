// Package qp is the queue-pair engine of a device: protection domains, memory regions and
// windows, completion queues and their channels, shared receive queues, queue pairs, and
// the shards that own them. An Engine makes them. It reaches the device through a Host.
//
// A shard belongs to one completion vector. In manual progress one goroutine, its owner,
// drives it by polling a CQ, and nothing is locked. In automatic progress a goroutine of
// the shard drives it too, and each call takes a lock.
//
// A queue pair sends its requests over a path. It knows the path only as a Path, a
// ReliablePath, and a LocalPath, a WirePath or a DatagramPath; the path knows the queue pair
// as a *QP. The exported methods of QP, WQE and Shard are what paths may call. Some of them
// may end the queue pair, as their comments say. It then calls
// ReliablePath.StopResponding.
//
// # Memory whose pages may be missing
//
// A mapped file may become shorter at any time, and an access to a missing page raises
// SIGBUS. A region of RegisterFaulting is accessed by mr.copy and by atomics in
// functions that ask the runtime for a panic, and recover; see guarded. ICRCs are
// computed over packets, so they never read a region. A missing page fails the
// operation: with StatusLocProtErr at the requester or in a receive buffer, and with
// the NAK "remote operational error" at the responder, which does not count as a wrong
// key.
package qp
