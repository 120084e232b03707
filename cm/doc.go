// Package cm manages RDMA connections: the API of librdmacm, rdma_cm(7), in Go. It finds
// the device for an address, sends and answers connection requests, carries their
// private data, and reports events on a channel that has a descriptor.
//
// The package has no callbacks and can be used with any kind of event loop. Its calls do
// not block, except EventChannel.Wait and EventChannel.Expect, which are for programs
// without an event loop. Group.Wait of package cq is the counterpart for completions.
// Every parameter is checked before the provider gets it; the error names the field, the
// value and the limit. The calls do what the manual pages specify. Of rdma_accept(3), the
// edition of 2014 counts. In some cases the kernel accepts a call that the pages forbid,
// or does something else than the pages say. In these cases this package returns an
// error.
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
// Each side has two descriptors to wait on: the descriptor of the event channel and the
// descriptor of the completion channel. When the peer disconnects, this side only gets
// the event Disconnected; the queue pair of this side is flushed when this side calls
// Disconnect. TimewaitExit may follow while the ID is open, and needs no reaction.
//
// The process of a peer may end without disconnecting. On the local path of
// provider/soft this side then gets Disconnected at once, with verbs.ErrPeerGone in
// Event.Err. With devices of the kernel, the peer's kernel sends the disconnect request.
// The kernel sends the request only once, so the request may be lost. On the wire path
// of provider/soft, and if the host of the peer is down, nothing is sent. This side then
// finds out only when a request of its own is not acknowledged, so a side that only
// receives has to send something from time to time, such as a WRITE of no bytes.
//
// The caller acknowledges every event with Event.Ack. Before the caller closes an ID, it
// acknowledges the events of the ID and closes the queue pair of the ID. State lists the
// states of an ID. A call that the state does not allow returns a *StateError, and
// nothing was sent.
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
// The file example_test.go has two examples, which the tests run: Example handles the
// events of both sides of a connection in one loop, and ExampleEventChannel_Expect has a
// client and a server that wait for each event, and sends a message.
//
// # Who may call
//
// Any goroutine may call the methods, with one exception: if an ID has a QP whose CQ was
// created with verbs.ProgressManual, only the goroutine that owns the CQ may call the
// methods of the ID and of its channel.
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
