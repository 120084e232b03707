// Package verbs defines the terms of RDMA and the interfaces that a provider implements.
// It has data types, interfaces and checks. The providers do the work.
//
// # Objects
//
//	Provider      one implementation: soft, rdmacore
//	└ Device      one RDMA device, with one or more ports
//	  ├ CompChannel   a descriptor that becomes readable when an armed CQ has an event
//	  ├ CQ            completion queue, with at most one CompChannel
//	  └ PD            protection domain
//	    ├ MR          registered memory, with a local and a remote key
//	    ├ MW          memory window: a key for a part of an MR, for one QP's peer
//	    ├ SRQ         receive queue shared by several QPs
//	    ├ AH          address handle: the destination of datagrams
//	    └ QP          queue pair, RC or UD, on a send CQ and a receive CQ
//
// Close an object before the objects that it was created from: a QP before its SRQ, CQs,
// AHs and PD, a CQ before its CompChannel, an MR before its PD. Closing an object that
// is still in use returns ErrBusy and changes nothing. A second Close does nothing.
// Every other call on a closed object returns an error that matches ErrClosed.
//
// # Who may call
//
// With ProgressAuto, the default, any goroutine may call any method.
//
// With ProgressManual, one goroutine owns a CQ. It also owns everything that completes
// on this CQ: the QPs, their SRQs, the CompChannel and the connection-manager ids of the
// QPs. Only the owner may call their methods. Data moves only while the owner polls the
// CQ. The reactor uses manual progress. A device in hardware always moves data by
// itself.
//
// # Errors
//
// A failed call returns an *OpError, which names the operation and wraps the cause.
// Some methods have causes of their own, which their comments name. The general causes:
//
//   - ErrClosed: the object is closed, or an object that it was created from;
//   - *ParamError: an argument is missing or out of range, or a limit of the device is
//     reached;
//   - ErrForeign: an argument belongs to another device, domain or provider;
//   - ErrNoResources: a limit of the process or of the system is reached;
//   - *FeatureError, which matches ErrNotSupported: the device does not support the
//     call;
//   - syscall.Errno: the error of the system or of the device's library.
//
// A work request can also fail later, after the call that posted it. Then the Status of
// its WC is not StatusSuccess, and WC.Err returns a *CompletionError.
package verbs

// The files of this package, in reading order:
//
//	errors.go         errors that all providers return
//	provider.go       providers, and what their devices can do
//	counter.go        counters of a device
//	wc.go             completions
//	cq.go             completion queues and completion channels
//	inline.go         optional abilities for small messages
//	sleep.go          optional abilities for owners that sleep
//	device.go         devices, their ports, and their asynchronous events
//	memory.go         protection domains, memory regions and address handles
//	memory_unsafe.go  reading memory with atomic loads
//	window.go         memory windows
//	wr.go             work requests
//	qp.go             queue pairs and shared receive queues
//	qp_state.go       states of a queue pair
