//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An Engine has the operations of a device that connection management needs. Any
// goroutine may call them. The caller must not hold a lock that DataHeard takes, because
// the engine may call DataHeard with its own lock held.
type Engine interface {
	// AddChannel is called before an event channel is opened. It returns verbs.ErrClosed
	// if the device is closed, or a *verbs.ParamError at the limit. A device with
	// channels can not be closed.
	AddChannel() error
	// RemoveChannel is called after an event channel was closed.
	RemoveChannel()
	// SourceIndex returns the GID index of an address of this host, or 0 if there is
	// none.
	SourceIndex(of netip.Addr) (int, error)
	// Bind tells the queue pair qpn how to reach its peer. The binding takes effect in
	// RTR. The engine owns b.End, even after an error. A later Bind replaces the
	// binding.
	Bind(qpn uint32, b *Binding) error
	// Unbind removes a binding, unless another one has replaced it. It releases End if
	// no queue pair has used it.
	Unbind(qpn uint32, b *Binding)
	// PeerGone tells a queue pair that the peer's process has ended without closing the
	// connection. It does nothing if the queue pair does not use b.End.
	PeerGone(qpn uint32, b *Binding)
}

// PortNumber is the number of the device's only port.
const PortNumber = 1

// LargestMTU is the largest path MTU (IBTA vol. 1, 6.8). Queue pairs of the local path
// have it.
const LargestMTU = verbs.MTU4096

// A Binding tells the engine how a queue pair reaches its peer. It does not change after
// Bind.
type Binding struct {
	// This side's end of the connection's shared memory; nil on the wire path.
	End *shm.End
	// Source that the engine reports to access.ErrorLimit for the peer's access errors;
	// only on the local path.
	Peer access.Source
	// Flow is the flow control of the wire path.
	Flow CreditFlow
	// DataHeard is called for the peer's first data packet, because the packet proves
	// that the REP or RTU has arrived. Any goroutine may call DataHeard. It must not
	// call the engine. It is nil on the local path.
	DataHeard func()
}

// CreditFlow says which sides use end-to-end flow control. A side without it advertises
// infinite credits (IBTA vol. 1, 12.6.7).
type CreditFlow struct {
	Sends    bool // true if this side advertises its receive buffers
	Receives bool // true if the peer advertises its receive buffers
}

// A QueuePair is a queue pair of the device.
type QueuePair interface {
	verbs.QP
	// Closed reports whether the queue pair was closed. Any goroutine may call it.
	Closed() bool
	// ReceiveAt limits a UD queue pair to wire path datagrams that arrive at one
	// address. For the zero Addr, and after an error, the queue pair receives no
	// datagrams. ReceiveAt does nothing if the device has no wire path.
	ReceiveAt(at netip.Addr) error
}

// A boundConn is the binding of one connection. The zero value has no binding.
type boundConn struct {
	qpn     uint32 // number of the queue pair; 0 until bind() is called
	binding *Binding
}

// bind stores a binding and gives it to the queue pair qpn.
func (b *boundConn) bind(e Engine, qpn uint32, to *Binding) error {
	b.qpn, b.binding = qpn, to
	return e.Bind(qpn, to)
}

// unbind removes the binding, if there is one.
func (b *boundConn) unbind(e Engine) {
	if b.binding != nil {
		e.Unbind(b.qpn, b.binding)
		b.binding = nil
	}
}

// peerGone tells the bound queue pair that the peer's process has ended.
func (b *boundConn) peerGone(e Engine) {
	if b.binding != nil {
		e.PeerGone(b.qpn, b.binding)
	}
}
