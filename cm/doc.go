// Package cm manages RDMA connections: the API of librdmacm, rdma_cm(7), in Go. It finds
// the device for an address, sends and answers connection requests, and reports events
// on a channel that has a descriptor.
//
// The package has no callbacks and can be used with any kind of event loop. Its calls do
// not block, except EventChannel.Wait and EventChannel.Expect. These calls are for
// programs without an event loop, like Group.Wait of package cq.
//
// Every parameter is checked before the provider gets it. The error names the field, the
// value and the limit.
//
// The calls do what the manual pages specify. Of rdma_accept(3), the edition of 2014
// counts. If the kernel does not follow the pages, this package returns an error.
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
// Each side waits on two descriptors: one of the event channel and one of the completion
// channel. When the peer disconnects, this side gets the event Disconnected. The queue
// pair of this side is flushed when this side calls Disconnect. TimewaitExit may follow,
// and needs no reaction.
//
// If the peer's process ends without disconnecting, this side does not always get an
// event:
//
//   - On the local path of provider/soft, Disconnected follows at once, with
//     verbs.ErrPeerGone in Event.Err.
//   - With devices of the kernel, the peer's kernel sends one disconnect request, which
//     may be lost.
//   - On the wire path of provider/soft, and if the peer's host is down, nothing is
//     sent.
//
// This side can then find out only if a request of its own is not acknowledged. So a
// side that only receives sends something from time to time, such as a WRITE of no
// bytes.
//
// The caller acknowledges every event with Event.Ack. Before the caller closes an ID, it
// acknowledges the ID's events and closes the ID's queue pair. A call that the state of
// the ID does not allow returns a *StateError and sends nothing.
//
// If the ID has no queue pair, the active side gets ConnectResponse instead of
// Established. The program then moves its own queue pair through its states with the
// attributes of InitQPAttr and calls Establish.
//
// In the UDP port space a connection is a lookup: the event Established has the QP
// number, the Q_Key and the address of the peer. The passive side gets no event
// Established. A refusal arrives as Unreachable with a positive status.
//
// # Errors
//
// A failed call returns a *verbs.OpError. Its cause is one of these, or one that the
// comment of the method names:
//
//   - verbs.ErrClosed: the ID or the channel is closed;
//   - *StateError: the state of the ID does not allow the call;
//   - *verbs.ParamError: an argument is missing or out of range;
//   - verbs.ErrNoResources: a limit of the process or of the system is reached;
//   - *verbs.FeatureError, which matches verbs.ErrNotSupported: the transport does not
//     support the call;
//   - syscall.Errno: the error of the system.
//
// After a *StateError or a *verbs.ParamError nothing has changed. A failure after the
// call has returned is reported by an Event with Event.Err.
//
// # What is missing
//
// Of rdma_cm(7) this package has the parts that connections and datagram lookups need.
// It does not have
//
//   - multicast groups (rdma_join_multicast, rdma_leave_multicast), because package
//     verbs does not attach queue pairs to groups either;
//   - rdma_create_ep, and IDs without a channel, whose calls wait for their results; a
//     program can wait for a result with EventChannel.Expect;
//   - rdma_getaddrinfo, because package net resolves names, and this package takes
//     addresses as netip.AddrPort;
//   - the port spaces IPOIB and IB, because they need InfiniBand addresses, and netip
//     has IPv4 and IPv6 only;
//   - enhanced connection establishment (ECE), which exchanges options between devices
//     of one vendor;
//   - events that the program itself puts into the channel (rdma_write_cm_event), because
//     an event loop has other means to wake itself;
//   - a shared receive queue that belongs to the ID (rdma_create_srq), because a queue
//     pair can use a shared receive queue of its protection domain (QPInitAttr.SRQ).
//
// # Examples
//
// In example_test.go, Example handles the events of both sides of a connection in one
// loop. ExampleEventChannel_Expect has a client and a server that wait for each event.
//
// # Who may call
//
// Any goroutine may call the methods. Exception: an ID may have a QP whose CQ was
// created with verbs.ProgressManual. In this case, only the goroutine that owns the CQ
// may call the methods of the ID and of the ID's channel.
package cm

// The files of this package, in reading order:
//
//	errors.go       errors of the peer and of the network
//	param.go        port spaces, parameters of a connection
//	check.go        checks of arguments
//	negotiate.go    parameters that both sides allow
//	event.go        Event
//	state.go        states of an ID, and the calls that they allow
//	transport.go    the interfaces that a provider implements
//	id.go           ID
//	option.go       options of an ID
//	addr.go         binding, listening, resolving addresses and routes
//	qp.go           queue pair of an ID
//	connect.go      connecting, accepting, rejecting, disconnecting
//	credentials.go  user and process of a peer on this host
//	channel.go      EventChannel
//	serve.go        addresses that a provider serves
//	notify.go       Notify
//	migrate.go      moving an ID to another channel
//	fetch.go        fetching and acknowledging events
//	wait.go         waiting for an event
