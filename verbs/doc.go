// Package verbs defines the terms of RDMA and the interfaces that a provider implements.
// It has data types, interfaces and checks, and no behaviour of its own.
//
// # Objects
//
//	Provider      one implementation: soft, rdmacore
//	└ Device      one RDMA device, with one or more ports
//	  ├ CompChannel   a descriptor that becomes readable when an armed CQ has an event
//	  ├ CQ            completion queue, with at most one CompChannel
//	  └ PD            protection domain
//	    ├ MR          registered memory, with a local and a remote key
//	    ├ SRQ         receive queue shared by several QPs
//	    ├ AH          address handle: the destination of datagrams
//	    └ QP          queue pair, RC or UD, on a send CQ and a receive CQ
//
// An object is closed before the objects that it was created from: a QP before its SRQ,
// CQs, AHs and PD, a CQ before its CompChannel, an MR before its PD. Closing an object
// that is still in use returns ErrBusy and changes nothing. Close is idempotent. Every
// other call on a closed object returns an error that matches ErrClosed.
//
// # Who may call
//
// With ProgressAuto, the default, any goroutine may call any method. With ProgressManual
// one goroutine owns a CQ and everything that completes on it: its QPs, their SRQs, the
// CompChannel and the connection-manager ids of those QPs. Only the owner may call their
// methods, and data moves only while the owner polls the CQ. The reactor uses manual
// progress. A device in hardware moves data by itself in both cases.
//
// # Errors
//
// A failed call returns an *OpError, which names the operation and wraps the cause. The
// cause is one of these, or one that the comment of the method names:
//
//   - ErrClosed: the object, or an object that it was created from, is closed;
//   - *ParamError: an argument is missing or out of range, or a limit of the device is
//     reached;
//   - ErrForeign: an argument belongs to another device, domain or provider;
//   - ErrNoResources: a limit of the process or of the system is reached;
//   - *FeatureError, which matches ErrNotSupported: the device does not support the call;
//   - syscall.Errno: the error of the system or of the device's library.
//
// A failure after the call has returned is reported by a WC whose Status is not
// StatusSuccess; WC.Err returns it as a *CompletionError.
package verbs

// The files of this package, in reading order:
//
//	errors.go         errors that all providers return
//	provider.go       providers, and what their devices can do
//	counter.go        counters of a device
//	wc.go             completions
//	cq.go             completion queues and completion channels
//	inline.go         optional abilities for small messages
//	device.go         devices, their ports, and their asynchronous events
//	memory.go         protection domains, memory regions and address handles
//	memory_unsafe.go  reading memory with atomic loads
//	wr.go             work requests
//	qp.go             queue pairs and shared receive queues
//	qp_state.go       states of a queue pair
