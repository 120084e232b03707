// Package rcpath is the wire path of RC queue pairs: reliable connections in packets (IBTA
// vol. 1, 9.7). A Conn is the path of one queue pair. Each of its parts has one task:
// requester, retransmission, connCongestion, credits, responder, respResources, ackDelay.
// Conns has what the connections of a shard share: the congestion windows of the peers'
// addresses, and the packets that are held behind gaps.
//
// # When packets are sent
//
//   - A call of drive that has received requests acknowledges them before it returns,
//     so before the callbacks of the owner. While the owner's turns are short, the next
//     call does it, so that one acknowledgement covers several messages (packets.turnPace).
//   - The first post after a call of drive sends its packets at once. Later ones leave
//     together in the next call, before the owner sleeps, or when the buffers are full
//     (packets.Demux.FlushFirst).
//   - A queue pair that enters the error state or RESET sends its due acknowledgement
//     first, so before a DREQ or DREP. The network may still change the order.
//   - A call of drive reads about 64 packets of the first socket of a shard and 64 of
//     its overflow sockets. More packets wait in their sockets, and not in the CQ. So
//     their messages find receive buffers, because the loop posts the buffers again
//     between two calls. A message without a buffer would be worse than a lost packet:
//     the peer repeats it soon, with all its packets in flight. For the same reason a
//     poll that leaves completions in its CQ does not always drive the shard.
//   - A timer fires only after the packets that had arrived were processed, since an
//     acknowledgement may be among them; see udp.Conn.Drain.
package rcpath
