// Package soft is an RDMA device in software: RC and UD queue pairs, memory regions with
// keys, completion queues and connection management, in pure Go, without privileges and
// without a kernel module. It works on Linux.
//
// Open(nil) opens a device with the defaults. The result is a cm.Provider, which
// reactor.New and cm.OpenChannel take:
//
//	device, err := soft.Open(nil)
//	engine, err := reactor.New(device, handler, nil)
//	...
//	err = engine.Shutdown(ctx)
//	err = device.Close()
//
// # Paths
//
// The path to the peer is chosen when a queue pair is connected. There are two paths.
// The local path leads to peers in the same network namespace, in this process or in
// another one. Its two ends share memory, which they set up over an abstract Unix
// socket. All connections between the same two loops use the same memory. The wire path
// leads to other peers. Its packets carry the InfiniBand transport in UDP (RoCEv2).
// Config.Path restricts a device to one of the paths. A program uses both in the same way.
//
// The two ends of a local connection need the same version of its messages and of the layout of
// its memory. These are private to this package, and any release may change them, so the programs
// of a host should be built from the same release. A dial to another version fails before the
// connection is open: with an error that names both versions, or with the error "not a usable
// shared segment". The wire path follows the specification of RoCEv2, so its ends may have
// different versions.
//
// Two containers of a host use the local path if they share a network namespace, because
// abstract sockets belong to it. The user ID of a process in another user namespace is that
// to which this namespace maps it; see Config.AllowedUsers.
//
// By default only processes of the same user and of root can be peers on the local path;
// see Config.AllowedUsers. On the wire path the user of a peer is not known; see Trust
// below.
//
// A datagram to a queue pair of this host goes over a Unix socket. When the receiver is
// slow, up to 1 MiB waits for each destination, and 16 MiB for all destinations of a
// completion vector. Further datagrams are dropped and counted. Datagrams in the socket
// of a process that ends are lost without being counted.
//
// # Regions
//
// A region of PD.Alloc with remote access rights takes a descriptor, and other processes
// of the same user can map it. After the first request of a connection for such a
// region, the requester executes READs, WRITEs and atomics of up to 1 MiB itself. The
// owner of the region need not poll. Requests must stay in order. So if an earlier
// request of the queue pair is outstanding, the requester does not execute the next one
// itself. It sends the request to the peer, which executes it. Only a READ of at least
// 64 KiB waits instead. Config.PrivateRegions turns mapping off.
//
// # Limits
//
//   - Only one device on a host can have the UDP port 4791 of an address; see PathAuto
//     and PathWire. Packets are sent to this port, but their source port may be another
//     one.
//   - A device serves up to 32 loops of the reactor, or as many as there are processors if
//     those are more, at most 1024. With 32 a loop has up to 262,144 queue pairs, and with
//     more as many fewer.
//   - When the peer's process ends, this is noticed at once on the local path. On the
//     wire path it is noticed only when a request is not acknowledged.
//   - A peer that answers nothing fails the connection on both paths after the same time:
//     the ACK timeout, once for the first attempt and once for each retry. On the local
//     path nothing is sent again. A peer without receive buffers answers.
//   - On the local path the process of the peer executes a one-sided operation, unless
//     this process has mapped the region; see Regions above. With verbs.ProgressManual
//     the operation waits while that process does not poll its CQ, and fails as above if
//     that takes too long.
//   - A connection on the local path takes one descriptor in each process, and so does each
//     pair of a completion vector and one of the peer. A program with thousands of them
//     needs a larger limit (ulimit -n).
//   - Tested are Linux 6.1 and 6.18. The local path needs sealed memfds (Linux 3.17). What
//     follows is used if the kernel has it: several packets in one call (UDP_SEGMENT, 4.18;
//     UDP_GRO, 5.0), mapping regions without remote write access (5.1), finding the user of
//     a listener with a full backlog (5.3), and sleeping for less than 1 ms (epoll_pwait2,
//     5.11).
//   - The device has congestion control of its own, which reacts to lost packets. It does
//     not have DCQCN or path migration.
//
// The method Attr of the device returns the sizes that it supports. The fields of Config
// limit what peers can use.
//
// # Interoperation
//
// The wire path is tested against rxe, the Soft-RoCE of Linux 6.1, over IPv4 and IPv6,
// with either side connecting. The tests cover messages, READ, WRITE, atomics, datagrams,
// lookups of UD services, private data, errors, and lost, duplicated, reordered and
// damaged packets. No network card has been tested. rxe has these limits:
//
//   - With a retry count of 7, rxe retries without end. If the peer has ended and its
//     last acknowledgement was lost, the request of rxe never completes.
//   - When a process exits without waiting for the DREP, only one DREQ is sent. It may be
//     lost.
//   - The connection manager of Linux sets an ACK timeout of 2.1 s for both sides of a
//     connection with rxe, or of 4.3 s for its own side if that has dialed. So a lost
//     packet is sent again only after this time. cm.ID.SetAckTimeout sets a shorter
//     timeout for this side.
//
// # Timers
//
// Connection management sets times that rdma_accept(3) leaves to the provider:
//
//   - The local ACK timeout is computed from the packet lifetime of the path and the ACK
//     delay of the peer's device. The lifetime is 0.54 s, and the timeout 1.07 s. With a
//     retry count of 7, a connection survives an outage of 5 s. cm.ID.SetAckTimeout sets
//     another timeout.
//   - The reply to a connection request states an ACK delay of 1.07 s, which a busy host
//     keeps. Linux 6.1 computes an ACK timeout of 4.3 s from it. A peer of this package
//     leaves it out of account.
//   - The minimum RNR timer is 0.64 ms, where the manual page has 655 ms.
//     cm.ID.SetMinRNRTimer sets another time.
//
// # Progress
//
// With verbs.ProgressManual, which the reactor uses, polling a CQ also does the work of
// its queue pairs, with no other goroutine and no lock. An owner that sleeps waits on
// the descriptor of the completion channel, which becomes readable when there is work.
// With verbs.ProgressAuto a goroutine of the device does the work too. This goroutine
// and all calls of the application then take a lock.
//
// # Times
//
// With verbs.QPInitAttr.RecvTime, WC.Time of a message on the wire path is the time at which
// the kernel has received the last packet of the message (SO_TIMESTAMPNS, socket(7)). Packets
// that the kernel has merged have the time of the first of them. On the local path, and if the
// kernel reports no time, WC.Time is 0.
//
// From the first queue pair with RecvTime, a shard receives all packets to the same local
// address in a slower way, and the kernel takes the time of each packet of the host. That ends
// when no queue pair of the shard uses the address, with RecvTime or without.
//
// While no socket of the host wants times, Linux takes none, and it begins some milliseconds
// after a socket has asked. Packets of these milliseconds have the time at which they were read.
// So on a host where nothing else wants times, the first messages of a new connection have the
// time of reading, unless another connection has times already.
//
// # Counters
//
// verbs.Device.Counters returns the counters with their descriptions, and docs/metrics.md
// lists them. The counters of requests, retries, NAKs and packets have the names and the
// meaning of those of rxe; local_ack_timeout_err, out_of_buffer and rx_icrc_encapsulated
// those of mlx5. The others have names of their own, because no driver has such counters.
// Four are gauges of memory, which the Go runtime does not see: alloc_bytes,
// registered_bytes, segment_bytes and peer_region_bytes. More about some of them:
//
//	cm_request_unread       These packets are not in rcvd_pkts.
//	datagram_unsent         The reasons: the receiver did not exist; it accepted no
//	                        connection for 10 s; its user is not allowed; it was too slow;
//	                        no file descriptor was free; the sender was closed.
//	no_descriptors_err,     If a UD sender is refused, the datagrams that it has already
//	user_limit_err          sent are still received.
//	partial_message_expired A peer usually stops its retries before that.
//	peer_shards_err         The limit is 256 loops, or twice the processors.
//	rcvd_ident_err          The packet was damaged, or the sender has skipped many
//	                        identifications.
//	rcvd_overrun_err        With PathAuto the system also drops datagrams from this host,
//	                        and they are counted here too. A socket buffers up to
//	                        net.core.rmem_max, 208 KiB by default, or 4 MiB with
//	                        CAP_NET_ADMIN. After drops, up to 63 further sockets are
//	                        opened. If the counter still grows, set sysctl
//	                        net.core.rmem_max=4194304; a larger value has no effect.
//	rcvd_address_err        The addresses can not be checked while a listener at the
//	                        address has a full backlog, because the kernel then does not
//	                        report the user of the listener.
//	rcvd_user_err           With PathAuto also requests and UD packets on the wire path
//	                        from an address of this host.
//	segment_bytes           A segment between two loops of this process is mapped twice.
//
// The packets of connection management are counted too. The local path has no packets.
// It uses the counters of receive buffers, of exceeded retries and of datagrams.
//
// # Captures
//
// Config.Capture writes the packets of the device to a file in the format pcapng, which
// Wireshark and tshark read. The file has two interfaces. The interface "wire" has what the wire
// path sends and receives, also damaged packets. The interface "local" has what the local path
// sends and receives, as the packets that it would have been on the wire path: messages, READs,
// WRITEs and atomics cut by the path MTU, responses, acknowledgements, datagrams, and the
// messages of connection management, all with a valid ICRC. Each packet says whether it was sent
// or received. If both ends of a connection belong to the device, the file has its packets twice.
//
// A socket does not show the headers of IP and UDP, so they are made up. The addresses, ports
// and lengths are those of the packet. The identification of IPv4 is computed from the ICRC. The
// traffic class and the hop limit of received packets are 0 and 64, unless the kernel reports
// them. Over IPv4 there is no UDP checksum. The time of a packet is the one at which the device
// has handled it. Packets of different loops may be out of order by some microseconds.
//
// On the local path:
//
//   - PSNs and MSNs are counted for the capture. They begin where those of the queue pairs would
//     begin.
//   - An acknowledgement covers all requests that were acknowledged together.
//   - Requests that the requester executes in mapped memory (see Regions above) are in its own
//     capture only. The responder does not see them, so after them the PSNs in its capture are
//     others. With Config.PrivateRegions both captures have the same packets.
//   - A message of connection management has the numbers of the queue pairs as communication
//     IDs. A request that was refused unread is missing at the listener.
//
// A loop copies each packet to memory of its own, from which a goroutine of the device writes the
// file, and never waits for the file. When the memory is full (Capture.Buffer), packets are
// dropped and counted as capture_dropped, and logged as a warning. The statistics at the end of
// the file have the dropped packets of each interface. If the file can not be written any more,
// for example because the disk is full, that is logged as one error, the file keeps what it has,
// and further packets are counted as capture_dropped. Connections are not disturbed. Close of
// the device writes what is left.
//
// The file has payloads, private data and memory keys in clear text. It has the mode 0600.
//
// # Trust
//
// Everything that the other process can write, and every packet, is copied once and
// checked before use. A peer that violates the protocol loses its connection: the queue
// pair enters the error state, and its requests are flushed. If its process writes an
// invalid value into shared memory, all connections that use this memory end. The memory
// of a connection is never shared with more than one other process.
//
// Any process of the host can bind the socket names of the local path. So each end asks
// the kernel for the user of the other end (SO_PEERCRED, unix(7)), before it sends or
// reads anything. By default only processes of the same user and of root can be peers;
// see Config.AllowedUsers. The user of a listener is the user who called listen(2), even
// if the socket was then passed to another user. The addresses that a request names are
// compared with the name of the client's socket.
//
// On the wire path the user of a peer is not known. So with PathAuto the wire path drops
// packets and requests from this host, and sends no requests to it. With PathWire no
// user is checked.
//
// Datagrams to this host go over Unix sockets too, so the same users are allowed. The
// sender of a datagram chooses the source queue pair and the source address itself, as
// on the wire path.
//
// RoCEv2 has no authentication. A host that can send packets from the address of a peer
// can end the connection. A host that sends packets from a forged address does not
// receive the answers. It can use bounded resources only:
//
//   - the half-open connections of a listener and of each source (Config.MaxHalfOpen,
//     MaxHalfOpenPerAddress)
//   - three messages sent for each one received (RFC 9000, 8.1)
//   - a rate of refusals, in total and for each source
package soft
