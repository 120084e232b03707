// Package verbs is the vocabulary of RDMA and the seam behind which a
// provider stands: data types and interfaces, no behaviour of its own.
//
// # Objects, from the bottom up
//
//	Provider      one implementation: soft, rdmacore
//	└ Device      one RDMA device, with one or more ports
//	  ├ CompChannel   a descriptor that becomes readable when an armed CQ fires
//	  ├ CQ            completion queue, at most one channel
//	  └ PD            protection domain
//	    ├ MR          registered memory, with a local and a remote key
//	    ├ SRQ         receive queue shared by several QPs
//	    ├ AH          address handle: where a datagram goes
//	    └ QP          queue pair, RC or UD, on a send CQ and a receive CQ
//
// An object is closed before those it was made from: QP before SRQ, CQ, AH and
// PD; CQ before its CompChannel; MR before PD. Closing one that is still in use
// returns ErrBusy and changes nothing. Close is idempotent; every other call on
// a closed object returns an error that matches ErrClosed.
//
// # Who may call
//
// With ProgressAuto, the default, every method may be called from any
// goroutine. With ProgressManual one goroutine owns a CQ and all that completes
// on it (its QPs, their SRQs, the CompChannel, the connection-manager ids of
// those QPs); only it may call, and polling the CQ is what moves the data. The
// reactor works that way. A device in hardware makes progress by itself and
// treats both alike.
//
// # Errors
//
// Calls return *OpError, which names the operation and wraps the cause. What
// goes wrong after a call has returned arrives as a WC whose Status is not
// StatusSuccess; CompletionError turns one into an error.
package verbs
