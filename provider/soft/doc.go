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
// A datagram to a queue pair of this host goes over a Unix socket (datagram.go).
// When the receiver is slow, up to 1 MiB waits for each destination and 16 MiB for
// all of a shard; what does not fit is dropped and counted. A datagram that is in the
// socket of a process that ends is lost without being counted.
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
// says so. All connections to one peer share a window, which answers grow
// and losses shrink, those of a connection only as far as its answers have grown it
// (wire_peer.go). What there is not: DCQCN, path migration, memory
// windows, SEND with invalidate.
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
// Connection management sets two times of a queue pair that rdma_accept(3) leaves to
// the provider. The local ACK timeout is computed from the packet lifetime of the
// path and the delay of the answering device, with a lifetime of 0.54 s, where the
// kernel assumes 0.27 s or 1.07 s. It so becomes 1.07 s, and with a retry count of 7 an
// outage of 5 s is survived. The minimum RNR timer is 0.64 ms, where the manual page
// has 655 ms. cm.ID.SetAckTimeout and cm.ID.SetMinRNRTimer set others.
//
// # Progress
//
// A shard (shard.go) owns queue pairs, completion queues and timers. In manual
// progress polling a CQ drives its shard, with no other goroutine and no lock; a
// sleeping owner waits on the shard's epoll descriptor, which the peer's doorbell
// makes readable. In automatic progress a goroutine of the shard does the same,
// under a lock that the owner's calls share.
//
// # Counters
//
// The device is a verbs.CounterReader. What it counts with the names and the meaning
// of rxe:
//
//	sent_pkts, rcvd_pkts    packets that the system has taken, and that queue pairs got
//	duplicate_request       request packets that were carried out before
//	out_of_seq_request      times that requests were missing, and the peer was told
//	rcvd_seq_err            times that a peer said so: NAKs of sequence errors
//	completer_retry_err     times that requests were sent again, after one of those, a
//	                        timeout, or an answer that left out a READ or atomic
//	retry_exceeded_err      requests that failed, since that was as often as allowed
//	send_rnr_err            RNR NAKs sent: a message found no receive buffer
//	rcvd_rnr_err            RNR NAKs received
//	retry_rnr_exceeded_err  requests that failed for one more of those
//	send_err                packets that the system has refused, too long or unroutable
//
// With those of mlx5:
//
//	local_ack_timeout_err   timeouts after which requests were sent again
//	out_of_buffer           messages and datagrams for which there was no receive buffer
//	rx_icrc_encapsulated    packets with a wrong ICRC: they were damaged on the way
//
// And with names of its own, for there are none:
//
//	access_refused          requests for connections that were refused, since earlier
//	                        connections from there have ended by access errors
//	cm_address_full         connection requests that were refused since their source
//	                        address has as many as it may; see Config.MaxConnsPerAddress
//	cm_answer_dropped       answers of connection management that were not sent: too many
//	                        went to strangers, or too much to one who has not shown yet
//	                        that it receives anything
//	cm_request_dropped      requests that were left unanswered for want of room; a peer
//	                        repeats them
//	cm_request_evicted      half-open connections that were ended to make room for the
//	                        requests of others; see Config.MaxHalfOpen
//	datagram_unsent         UD sends to this host that completed and were then dropped:
//	                        no such queue pair was there, the queue of the destination
//	                        was full, or the sender was closed
//	datagram_user_refused   connections for UD from, and sends to, processes of users
//	                        who are not allowed; see Config.AllowedUsers
//	no_descriptors_err      connections on the local path that were refused for want of
//	                        file descriptors
//	no_mappings_err         connections on the local path that were refused, or given up
//	                        by the dialing side, since the process has too many mappings
//	                        (vm.max_map_count)
//	rcvd_datagram_err       datagrams that a UD queue pair dropped, on either path: it was
//	                        not ready, the Q_Key was another, the buffer too small
//	partial_message_expired connections that ended since the rest of a message did not come,
//	                        for longer than its sender may go on trying
//	rcvd_ident_err          packets over IPv4 whose ICRC would be right with another
//	                        identification than the sender was expected to use: they were
//	                        damaged, or the sender has begun to count elsewhere
//	rcvd_malformed_err      datagrams that are no packets of RoCEv2
//	rcvd_no_qp_err          packets for a queue pair or a partition that there is not
//	rcvd_overrun_err        datagrams that the system dropped before they were read,
//	                        mostly for want of room. A socket has net.core.rmem_max, 208 KiB
//	                        by default, or 4 MiB where the process has CAP_NET_ADMIN. One
//	                        that drops packets gets up to 63 others beside it. Where the
//	                        counter grows nevertheless, sysctl net.core.rmem_max=4194304
//	                        helps; more is not used
//	rcvd_address_err        requests on the local path that were refused, since the
//	                        addresses that they named were not those of the process
//	rcvd_user_err           requests from this host that were refused, since
//	                        Config.AllowedUsers does not allow the user of the process,
//	                        or since no process has the UDP port of their source address
//	silent_client_err       clients on the local path that had sent no request, and had to
//	                        go when too many others came
//	skipped_user_err        processes of this host that a dial sent no request to,
//	                        since Config.AllowedUsers does not allow their user
//	user_limit_err          connections on the local path that were refused, since the
//	                        user has as many as Config.MaxConnsPerUser allows
//
// Packets include those of connection management. On the local path there are none;
// of it there are the counters of receive buffers, of retries exceeded and of datagrams.
//
// # Trust
//
// Everything that the other process can write (slots, counters, datagrams) is
// copied once and checked before use; so is everything that comes by packet. A
// peer that breaks the protocol costs its own connection: the queue pair goes to
// the error state and its requests are flushed.
//
// The names of the local path can be taken by any process of the host. So both ends
// ask the kernel for the user of the other (SO_PEERCRED, unix(7)): the connecting
// one before it sends anything, the accepting one before it reads. By default the
// peers are processes of the same user and of root; see Config.AllowedUsers. The
// user of a listener is the one that called listen(2), also when the socket was then
// handed to a process of another user. The addresses that a request names are
// compared with the name of the client's socket (rendezvous_source.go).
//
// The wire path can lead to another address of the same host. The users of such peers
// are checked in the same way, when a connection is requested (cm_wire_user.go).
//
// Datagrams to this host go over such sockets, too, so they neither reach nor come
// from processes of other users, whatever queue pair number an address handle or a
// lookup named. Which queue pair and which address of this host a datagram is from is
// what its sender claims, as it is on a wire.
//
// RoCEv2 has no authentication. Whoever can send packets in the name of an address
// that a connection goes to can end the connections to it. What a stranger costs who
// can not receive what is sent to the address that he gives is bounded: the half-open
// connections of a listener and of each source (Config.MaxHalfOpen,
// MaxHalfOpenPerAddress), three messages sent for each one received (RFC 9000, 8.1),
// and a rate of refusals in all and for each source.
package soft
