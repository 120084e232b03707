// Package verbs defines the data types of RDMA, the interfaces that a provider
// implements, and checks of arguments. Package verbs itself transfers no data: the
// providers do.
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
// AHs and PD, a CQ before its CompChannel, an MR before its PD. Closing an object that is
// still in use returns ErrBusy and changes nothing. A second Close does nothing. Every
// other call on a closed object returns an error that matches ErrClosed. The results of
// methods without an error then have no meaning.
//
// # Who may call
//
// With ProgressAuto, the default, any goroutine may call any method. One goroutine at a time
// polls a CQ with CQAttr.Inline.
//
// With ProgressManual, each CQ has one goroutine as its owner. The owner also owns the
// objects that use the CQ: the QPs, their SRQs, the CompChannel and the
// connection-manager ids of the QPs. Only the owner may call the methods of these
// objects. Data moves only while the owner polls the CQ or takes events from the
// CompChannel. The reactor uses manual progress. A hardware device always moves data by
// itself, but with ProgressManual it too has one caller: the owner.
//
// # Errors
//
// A failed call returns an *OpError, which names the operation and wraps the cause. The
// comment of a method names the causes that are special to the method. Other causes are
// common to many methods:
//
//   - ErrClosed: the object, or an object that it was created from, is closed;
//   - *ParamError: an argument is missing or out of range, or a limit of the device is
//     reached;
//   - ErrForeign: an argument belongs to another device, domain or provider;
//   - ErrNoResources: a limit of the process or of the system is reached;
//   - *FeatureError, which matches ErrNotSupported: the device does not support the call;
//   - syscall.Errno: the error of the system or of the device's library.
//
// A work request can also fail later, after the call that posted it. Then the Status of
// the request's WC is not StatusSuccess, and WC.Err returns a *CompletionError.
package verbs
