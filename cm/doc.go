// Package cm manages RDMA connections. It is the API of librdmacm, rdma_cm(7), in Go. It
// finds the device for an address, sends and answers connection requests, and reports
// events on a channel that has a descriptor.
//
// The package has no callbacks and works with any event loop. Its calls do not block,
// except EventChannel.Wait and EventChannel.Expect, which are for programs without an event
// loop, and ListenAddr and DialAddr, which look up names.
//
// Every parameter is checked before the provider gets it. The error names the field, the
// value and the limit.
//
// The calls do what the manual pages say. For rdma_accept(3), this means the edition of
// 2014. Where the kernel does not do what the pages say, this package returns an error.
//
// # Sequences
//
//	active side                            passive side
//	NewID                                  NewID, Bind, Listen
//	ResolveAddr     -> AddrResolved
//	ResolveRoute    -> RouteResolved
//	CreateQP, post receives
//	Connect         ----------------->     ConnectRequest (a new ID)
//	                                       CreateQP, post receives
//	Established     <-----------------     Accept
//	                ----------------->     Established
//	Disconnect      ----------------->     Disconnected
//	Disconnected    <-----------------     Disconnect
//	Close                                  Close
//
// If the passive side calls Reject instead of Accept, the active side gets Rejected
// instead of Established.
//
// A program waits for two descriptors: the event channel's and the completion channel's.
//
// When the peer disconnects, this side gets the event Disconnected. The program then
// calls Disconnect, which flushes its queue pair. TimewaitExit may follow, and needs no
// reaction.
//
// The program acknowledges every event with Event.Ack. Before it closes an ID, it
// acknowledges the ID's events and closes the ID's queue pair. A call that the state of
// the ID does not allow returns an error that matches verbs.ErrState, and sends nothing.
//
// # Peers that disappear
//
// The peer's process may end without disconnecting. What happens then depends on the
// path:
//
//   - On the local path of provider/soft, Disconnected follows at once, with
//     verbs.ErrPeerGone in Event.Err.
//   - With devices of the kernel, the peer's kernel sends one disconnect request, which
//     may be lost.
//   - On the wire path of provider/soft, nothing is sent. Nothing is sent either if the
//     peer's host is down.
//
// If nothing arrives, this side notices only that its own requests are not acknowledged.
// A side that only receives should therefore send something from time to time, such as a
// WRITE of no bytes.
//
// # Queue pairs of the program
//
// A program may create its queue pair without this package. The active side then gets
// ConnectResponse instead of Established. The program moves its queue pair through the
// states with the attributes of InitQPAttr, and calls Establish.
//
// # Datagram lookups
//
// In the UDP port space there are no connections. Connect looks up a queue pair for
// datagrams, and the event Established has the QP number, the Q_Key and the address of
// the peer. The passive side gets no event Established. A refusal arrives as Unreachable
// with a positive status.
//
// # Errors
//
// A failed call returns a *verbs.OpError, which names the operation and wraps the cause. Use
// errors.Is and errors.As to test for the cause. ListenAddr and DialAddr return errors of
// package net instead. Some methods have causes of their own, which their comments name. The
// general causes:
//
//   - verbs.ErrClosed: the ID or the channel is closed;
//   - verbs.ErrState: the state of the ID does not allow the call;
//   - *verbs.ParamError: an argument is missing or out of range;
//   - verbs.ErrNoResources: a limit of the process or of the system is reached;
//   - *verbs.FeatureError, which matches verbs.ErrNotSupported: the transport does not
//     support the call;
//   - syscall.Errno: the error of the system.
//
// If the state of the ID does not allow the call, or an argument is wrong, nothing has changed.
// An operation can also fail later, after the call. Then an Event reports the failure in
// Event.Err.
//
// # What is missing
//
// This package has the parts of rdma_cm(7) that connections and datagram lookups need.
// It does not have:
//
//   - multicast groups (rdma_join_multicast, rdma_leave_multicast), because package
//     verbs can not attach queue pairs to groups;
//   - rdma_create_ep, and IDs without a channel, whose calls wait for their results. Use
//     EventChannel.Expect to wait for a result;
//   - rdma_getaddrinfo with all its results: ListenAddr and DialAddr return an address;
//   - the port spaces IPOIB and IB, because they need InfiniBand addresses, and this
//     package takes addresses as netip.AddrPort;
//   - enhanced connection establishment (ECE), which exchanges options between devices
//     of one vendor;
//   - events that the program itself puts into the channel (rdma_write_cm_event),
//     because an event loop has other means to wake itself;
//   - a shared receive queue that belongs to the ID (rdma_create_srq). Use a shared
//     receive queue of the protection domain: QPInitAttr.SRQ.
//
// # Examples
//
// In example_test.go, Example handles the events of both sides of a connection in one
// loop. ExampleEventChannel_Expect has a client and a server that wait for each event.
//
// # Who may call
//
// Any goroutine may call the methods, with one exception. The queue pair of an ID may
// have a CQ with verbs.ProgressManual. Then only the goroutine that owns the CQ may call
// the methods of the ID and of the ID's channel, except EventChannel.FD. Event.Ack is for
// any goroutine in any case.
package cm
