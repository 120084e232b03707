// Package cm manages RDMA connections: the API of librdmacm, rdma_cm(7), in Go.
// It finds the device behind an address, makes and answers connection requests,
// carries their private data, and reports what happens as events on a channel
// that has a descriptor and never blocks.
//
// It calls nobody back and knows nothing of epoll. Every parameter is checked
// here, before a provider sees it, with an error that names field, value and
// limit. The promises are those of the manual pages (for rdma_accept the page
// of 2014); the traps between those pages and the kernel are errors here.
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
//	Established     <-----------------     Accept, or Reject -> Rejected
//	                ----------------->     Established
//	Disconnect      ----------------->     Disconnected
//	Disconnected    <-----------------     Disconnect
//	Close                                  Close
//
// Both sides have two descriptors to wait on, the channel's and that of their
// completions: Disconnected of the peer's is an event only, and flushes nothing
// before this side calls Disconnect. TimewaitExit may follow it, for as long as
// the ID is open, and asks for nothing. A peer that is gone without a word is
// found out by requests that it does not answer, so a side that only receives
// has to send something now and then, such as a WRITE of no bytes.
//
// Every event is given back with Event.Ack, and an ID is closed after its events
// and its QP. State has the states that an ID goes through; a call that does not
// fit is a *StateError, and nothing was sent.
//
// With an ID that has no QP the active side gets ConnectResponse instead of
// Established, drives its own queue pair with InitQPAttr and calls Establish.
//
// In the UDP port space a connection is a lookup: Established brings the peer's
// QP number, Q_Key and address, the passive side gets no such event, and a
// refusal is Unreachable with a positive status.
//
// # What is left out
//
// Of rdma_cm(7) this package has what connections and datagram lookups need.
// Left out are
//
//   - multicast groups (rdma_join_multicast, rdma_leave_multicast): verbs has no
//     attaching of queue pairs to groups either;
//   - rdma_create_ep, and IDs without a channel: their calls block, and nothing
//     here does;
//   - rdma_getaddrinfo: names are for package net, addresses are netip.AddrPort;
//   - the port spaces IPOIB and IB: they need addresses of InfiniBand, netip has
//     those of IPv4 and IPv6;
//   - enhanced connection establishment (ECE): options between devices of one
//     vendor;
//   - events of the user (rdma_write_cm_event): a loop has better means to wake
//     itself;
//   - a shared receive queue on the ID (rdma_create_srq): QPInitAttr.SRQ takes one
//     of the protection domain.
//
// # Who may call
//
// The methods may be called from any goroutine, with one exception: once an ID
// has a QP whose CQ was made with verbs.ProgressManual, the ID and the channel it
// is on belong to the goroutine that owns the CQ.
package cm
