//go:build linux

package connmgr

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Transport makes the connections and listeners of one path. The channel of the ID is
// locked.
type Transport interface {
	// Connect makes the connection of an ID from a local address to a remote one. It sends
	// nothing.
	Connect(i *ID, local, remote netip.Addr) (Conn, error)
	// Listen opens the listener of an ID at the addresses of its Reservation.
	Listen(i *ID) (Listener, error)
}

// A WireTransport is the transport of the wire path.
type WireTransport interface {
	Transport
	// Serve returns the worker of a new channel.
	Serve(ch *Channel) Worker
}

// A Worker is the part of a channel that belongs to the wire path. The path is used by all
// channels of a device, so that one channel receives messages for another one.
type Worker interface {
	// Work does the work that was queued for the channel when Wake was called. It returns
	// true if some of it is left. The channel is locked.
	Work() (more bool)
	// Close ends the work. The channel is locked.
	Close()
}

// A Conn exchanges the messages of one ID with its peer over one path. It passes
// received messages to ID.Deliver. Its methods are called with the channel locked, and do
// not block.
type Conn interface {
	// Path returns LocalPath or WirePath.
	Path() string
	// Dial sends a request. If it returns an error, it has sent nothing, and may be called
	// again.
	Dial(request Message) error
	// Attach returns the binding with which the queue pair qpn reaches the peer. It is called
	// before the queue pair enters RTR, and before the REP is sent.
	Attach(qpn uint32) (*Binding, error)
	// Send sends a message. It returns verbs.ErrPeerGone if the peer has closed the
	// connection.
	Send(m Message) error
	// StopDelivery ends the delivery of received messages to the ID. The ID can still send
	// messages.
	StopDelivery()
	// Move moves the connection to another channel. Both channels are locked.
	Move(to *Channel) error
	// Close closes the connection without sending a message.
	Close()
}

// A Listener passes the requests of one path to ID.Incoming. Its methods are called with
// the channel locked, and do not block.
type Listener interface {
	// SetAccepting sets whether the listener accepts requests. While the listener does not
	// accept requests, requests on the local path wait, and REQs on the wire path are
	// dropped.
	SetAccepting(accept bool)
	// Serves returns the addresses of the listener. The field Err of an address says why the
	// address could not be opened.
	Serves() []cm.ServedAddr
	Move(to *Channel) error
	Close()
}

// listeners are the listeners of one listening ID: at most one for each path.
type listeners []Listener

func (ls listeners) setAccepting(yes bool) {
	for _, l := range ls {
		l.SetAccepting(yes)
	}
}

func (ls listeners) move(to *Channel) error {
	for _, l := range ls {
		if err := l.Move(to); err != nil {
			return err
		}
	}
	return nil
}

// serves returns the addresses of all listeners, the local path first.
func (ls listeners) serves() (served []cm.ServedAddr) {
	for _, l := range slices.Backward(ls) {
		served = append(served, l.Serves()...)
	}
	return served
}

func (ls listeners) close() {
	for _, l := range ls {
		l.Close()
	}
}

// openListeners opens a listener on each path of the device. The listener on the local
// path is opened last, because its socket can not stop listening if a later step fails
// (listen(2)).
func (i *ID) openListeners() error {
	var err error
	if i.m.Wire != nil && !(i.m.Local != nil && i.reservation.Addr.Addr.IsLoopback()) {
		err = i.addListener(i.m.Wire)
	}
	if err == nil {
		err = i.checkServed()
	}
	if err == nil && i.m.Local != nil {
		err = i.addListener(i.m.Local)
	}
	if err != nil {
		i.listeners.close()
		i.listeners = nil
	}
	return err
}

func (i *ID) addListener(on Transport) error {
	l, err := on.Listen(i)
	if err == nil {
		i.listeners = append(i.listeners, l)
	}
	return err
}

// checkServed returns an error if too few addresses of the wire path are open. With
// Config.ListenOnAll, all must be open. On a device without local path, at least one must
// be open.
func (i *ID) checkServed() error {
	var missing error
	served := 0
	for _, s := range i.listeners.serves() {
		if s.Err == nil {
			served++
		} else if missing == nil {
			missing = fmt.Errorf("%s path at %v: %w", s.Path, s.Addr, s.Err)
		}
	}
	if i.m.ListenOnAll || i.m.Local == nil && served == 0 {
		return missing
	}
	return nil
}

// Serves implements cm.ServesReader. It returns the addresses of a listening ID. The
// field Err of an address says why the address could not be opened.
func (i *ID) Serves() []cm.ServedAddr {
	ch := i.lock()
	defer ch.unlock()
	return i.listeners.serves()
}

// findPath makes the connection over the path from src to dst. If the device has the local
// path, findPath chooses the local path for addresses of this host. For all other
// addresses, it chooses the wire path.
func (i *ID) findPath(ch *Channel, src, dst netip.Addr) (Conn, error) {
	if i.m.Local != nil {
		own, err := dst == src, error(nil)
		if !own {
			own, err = ch.IsLocalAddr(dst)
		}
		switch {
		case err != nil:
			return nil, err
		case own:
			return i.m.Local.Connect(i, src, dst)
		}
	}
	if i.m.Wire == nil {
		return nil, &verbs.FeatureError{Feature: "wire path", Reason: cm.ErrNoRoute}
	}
	return i.m.Wire.Connect(i, hostport.WithoutZone(src), hostport.WithoutZone(dst))
}

// The methods below are those that transports call, with the channel of the ID locked.

// Channel returns the channel of the ID.
func (i *ID) Channel() *Channel { return i.ch.Load() }

// PortSpace returns the port space of the ID.
func (i *ID) PortSpace() cm.PortSpace { return i.ps }

// State returns the state of the connection or SIDR request.
func (i *ID) State() State { return i.state }

// Active reports whether this side has sent the request.
func (i *ID) Active() bool { return i.active }

// Endpoints returns the addresses of this side and of the peer.
func (i *ID) Endpoints() Endpoints { return Endpoints{Src: i.local, Dst: i.remote} }

// Reservation returns the reservation of the local port.
func (i *ID) Reservation() *hostport.Reservation { return &i.reservation }

// PathMTU returns the path MTU that both sides have agreed on, or that this side has
// proposed. SetPathMTU sets it.
func (i *ID) PathMTU() verbs.MTU { return i.negotiated.mtu }

// SetPathMTU sets the path MTU.
func (i *ID) SetPathMTU(mtu verbs.MTU) { i.negotiated.mtu = mtu }

// Flow returns the end-to-end flow control of the connection.
func (i *ID) Flow() CreditFlow { return i.negotiated.flow }

// SetPeer records the credentials of the peer's process.
func (i *ID) SetPeer(peer cm.Credentials) { i.peer, i.peerKnown = peer, true }

// AddressesChanged tells the application of a listening ID that the addresses of the
// listener have changed.
func (i *ID) AddressesChanged() { i.raise(cm.TransportEvent{Type: cm.AddrChange}) }

// SetupFailed ends a connection that lacks resources of this process, instead of the REP
// that has arrived.
func (i *ID) SetupFailed(err error) { i.setupFailed(err, &REP{}) }

// Refused ends a request with the event Unreachable, because the peer's host has refused
// the request. The parameter cause is the field Err of the event.
func (i *ID) Refused(cause error) { i.unreachable(StatusRefused, cause) }

// Refusal returns the message with which the system refuses a request to this listening
// ID.
func (i *ID) Refusal(reason cm.RejectReason) Message { return i.refusal(reason, nil, false) }
