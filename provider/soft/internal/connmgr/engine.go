//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An Engine has the operations of a device that connection management needs: it counts
// event channels, and connects queue pairs. Its methods may be called from any
// goroutine. The engine holds a lock while it calls DataHeard of a Binding, and a method
// of the engine can take the same lock. So connection management calls no method of the
// engine while it holds a lock that DataHeard takes, such as the lock of the
// multiplexer. Otherwise a deadlock would be possible.
type Engine interface {
	// AddChannel is called before an event channel is opened. It returns verbs.ErrClosed
	// after the device was closed, and a *verbs.ParamError if there are too many event
	// channels. The device can not be closed while it has event channels.
	AddChannel() error
	// RemoveChannel is called after an event channel was closed.
	RemoveChannel()
	// SourceIndex returns the index of the GID of an address of this host. It returns 0
	// if the device's port has no GID for the address.
	SourceIndex(of netip.Addr) (int, error)
	// Bind tells the queue pair with the number qpn how it reaches its peer. The queue
	// pair uses the binding when it enters RTR. A queue pair that is in RTR already, and
	// is not connected to its peer yet, uses the binding at once. With the call the
	// engine becomes the owner of the End in the binding, even if Bind returns an error.
	// Another call for the same queue pair replaces the binding.
	Bind(qpn uint32, b *Binding) error
	// Unbind removes a binding, unless another one has replaced it. If no queue pair has
	// used the field End of the binding, Unbind releases the resources of End.
	Unbind(qpn uint32, b *Binding)
	// PeerGone tells a queue pair that the peer's process has ended without closing the
	// connection. It does nothing if the queue pair does not use the field End of the
	// binding.
	PeerGone(qpn uint32, b *Binding)
}

// PortNumber is the number of the device's only port.
const PortNumber = 1

// LargestMTU is the largest path MTU (IBTA vol. 1, 6.8). On the wire path a smaller one
// may be used. The local path has no packets; its queue pairs have LargestMTU as an
// attribute.
const LargestMTU = verbs.MTU4096

// A Binding is what connection management tells the engine about the connection of a
// queue pair. Nobody changes a Binding after it was passed to Bind.
type Binding struct {
	// End is this side's end of the shared memory of the connection. It is nil on the
	// wire path.
	End *shm.End
	// Peer is the source that the engine reports to access.ErrorLimit when the peer
	// causes an access error. Peer is used on the local path only.
	Peer access.Source
	// Flow is the flow control of the wire path.
	Flow CreditFlow
	// DataHeard is called when the first data packet of the connection has arrived. In a
	// message, this side has told the peer the first packet sequence number that it
	// expects. The data packet has this number, so the peer has received the message.
	// DataHeard may be called from any goroutine. A lock of the engine may be held, so
	// DataHeard does not call the engine. The field is nil on the local path.
	DataHeard func()
}

// CreditFlow says which side uses end-to-end flow control. A side that does not use it
// advertises infinite credits (IBTA vol. 1, 12.6.7), and its peer may send without limit.
type CreditFlow struct {
	Sends    bool // true if this side advertises its receive buffers
	Receives bool // true if the peer advertises its receive buffers
}

// A QueuePair is a queue pair of the device.
type QueuePair interface {
	verbs.QP
	// Closed reports whether the queue pair was closed. Any goroutine may call it.
	Closed() bool
	// ReceiveAt makes a UD queue pair receive datagrams of the wire path at one address
	// of this host, or at none if the address is the zero value. Without ReceiveAt the
	// queue pair receives at all addresses of this host. If the wire path can not be used
	// at the address, ReceiveAt returns the reason, and the queue pair receives at none.
	// It does nothing if the device does not use the wire path.
	ReceiveAt(at netip.Addr) error
}

// A boundConn is the binding of one connection. The zero value has no binding.
type boundConn struct {
	qpn     uint32 // number of the queue pair; 0 until bind is called
	binding *Binding
}

// bind stores a binding, and gives it to the queue pair with the number qpn.
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

// peerGone tells the queue pair that the peer's process has ended without a DREQ. It
// does nothing if there is no binding.
func (b *boundConn) peerGone(e Engine) {
	if b.binding != nil {
		e.PeerGone(b.qpn, b.binding)
	}
}
