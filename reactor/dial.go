package reactor

import (
	"bytes"
	"context"
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// DialOptions are the options of a connection that this side opens. Dial copies them.
type DialOptions struct {
	// Ctx cancels the dial: when it is done before OnOpen, OnDialError gets an error that
	// matches context.Cause(Ctx), and the request is withdrawn. If it is done when Dial is
	// called, Dial returns that error. After OnOpen, Ctx has no effect on the connection. Nil
	// means that only Timeout ends the dial.
	Ctx context.Context
	// PrivateData is sent to the peer with the connection request, at most 56 bytes, or 48
	// if Config.MaxLongMessage is set and ImmediatesOnly is not. It may arrive padded with
	// zeros, see cm.ConnParam.
	PrivateData []byte
	// PrivateDataFor replaces PrivateData if it is not nil. It makes the private data when the
	// device and the queue pair of the connection are known, for example the address and the
	// key of memory for the peer: see Region.Remote. The result is copied.
	//
	// The function is called once, on the loop of the connection, before OnOpen. It may call
	// Conn.Info, State and Loop, and use Conn.UserData. Operations return ErrClosed. If the
	// function returns an error, the connection is not made, and OnDialError or OnAcceptError
	// gets the error. The request of a peer is then rejected with cm.RejectNoResources.
	PrivateDataFor func(c *Conn) ([]byte, error)
	// Loop is the loop that gets the connection. Nil means the one with the fewest
	// connections.
	Loop *Loop
	// LocalAddr is the local address and port of the connection. The zero value means that
	// the provider chooses both.
	LocalAddr netip.AddrPort
	// Handler gets the callbacks of the connection. Nil means the Handler of the engine.
	Handler Handler
	// Timeout is how long the connection may take to open, at most cm.MaxTimeout. Zero
	// means Config.Limits.ConnectTimeout.
	Timeout time.Duration
	// AckTimeout replaces Config.Transport.AckTimeout, unless it is zero.
	AckTimeout time.Duration
	// RetryCount, RNRRetryCount, ResponderResources and InitiatorDepth: zero means the
	// value of the field with the same name in Config.Transport. Negative means none.
	RetryCount         int
	RNRRetryCount      int
	ResponderResources int
	InitiatorDepth     int
	// ImmediatesOnly means that the peer sends only WRITEs with immediate data, and
	// messages without bytes. The receives of the connection then need no buffers. There
	// are Config.MaxInFlight of them for each connection, even if the connections of the
	// loop share receive buffers. A message with bytes ends the connection: OnClose gets
	// a *verbs.CompletionError, with verbs.StatusLocLenErr on this side and
	// verbs.StatusRemInvReqErr at the peer.
	//
	// OnMessage is called until OnClose, also after Conn.Close and Conn.Abort. In this
	// way a protocol learns that both sides have ended a connection at the same time.
	ImmediatesOnly bool
	// OwnRecvQueue gives the connection a receive queue of its own, even if the connections
	// of the loop share receive buffers. The queue has Config.MaxInFlight buffers, or twice
	// MinRecvBuffers if that is more. On most devices Conn.PauseRecv needs that.
	OwnRecvQueue bool
	// MessageTime makes Message.Time return when a message has arrived. If the device knows
	// that, it is the time of the packet that has completed the message, however late the loop
	// runs. If it does not, it is the time of the turn of the loop that has received the
	// message: the loop reads the clock once in a turn, before the first OnMessage that can ask
	// for it. This side fetches the bytes of a long message itself, so the message and its parts
	// have the time of the turn that passes them to the handler.
	//
	// A device without verbs.Caps.RecvTime, such as those of package rdmacore, knows no times
	// of arrival. The device of package soft knows them on the wire path, but not on the local
	// path, where ConnInfo.Credentials is not nil. Also on the wire path there are
	// two exceptions, which a program can not recognise. The first messages of a connection may
	// have the time at which they were read, and packets that the kernel has merged have the
	// time of the first of them: see "Times" in the comment of package soft.
	MessageTime bool
	// TOS is the type of service of both sides' packets. With IPv6 this is the traffic
	// class. Zero means the provider's default. Source: rdma_set_option(3).
	TOS uint8
	// ReuseAddr lets other IDs that also set the option share LocalAddr. Source:
	// rdma_set_option(3), see cm.ID.SetReuseAddr.
	ReuseAddr bool
	// UserData is the first value of Conn.UserData.
	UserData any
}

// A dialRequest has the arguments of Dial after they were checked.
type dialRequest struct {
	opening opening
	addr    netip.AddrPort
	// Copy of the options. If DialOptions.Timeout was zero, the copy has
	// Config.Limits.ConnectTimeout.
	options DialOptions
	// Parameters of the connection request. They come from the options and from Config.
	param cm.MessageParam
	// unwatch ends the effect of DialOptions.Ctx; nil without it.
	unwatch func() bool
}

// watch makes the loop end the dial of c when DialOptions.Ctx is done. The result is that of
// canceled.
func (r *dialRequest) watch(c *Conn) error {
	if r.options.Ctx != nil {
		r.unwatch = context.AfterFunc(r.options.Ctx, func() {
			// Loop.post() fails only if the loop has ended, and the dial with it.
			_ = c.loop.post("cancel dial", c.cancelDial, true)
		})
	}
	return r.canceled()
}

// canceled returns the cause if DialOptions.Ctx is done, and otherwise nil. The request is nil
// for an accepted connection.
func (r *dialRequest) canceled() error {
	if r == nil || r.options.Ctx == nil {
		return nil
	}
	return context.Cause(r.options.Ctx)
}

// end is called when the connection is open or has failed. The request is nil for an accepted
// connection.
func (r *dialRequest) end() {
	if r != nil && r.unwatch != nil {
		r.unwatch()
	}
}

// cancelDial ends the connection because DialOptions.Ctx is done, unless it is open or has
// failed.
func (c *Conn) cancelDial() {
	if c.state < stateOpenFailed {
		c.endWith(c.opening.dial.canceled())
	}
}

// Dial begins to connect to addr. A nil o means the defaults. If Dial returns nil,
// OnOpen or OnDialError follows, on the loop of the connection. Any goroutine may call
// Dial, also before Start. cm.DialAddr returns the address for a text of a user.
//
// Dial copies the options. OnDialError gets the pointer o, and ConnInfo.DialOptions is
// o, so the application can recognize the call. If o is nil, both have a pointer to new
// options.
//
// By default a peer that is silent ends a connection after 8.6 s, and an idle one after
// 39 s: Config.PeerTimeout changes that, and says what it costs.
//
// After an error no callback follows. The errors:
//
//   - *verbs.ParamError: addr or an option is out of range.
//   - ErrShutdown, ErrClosed: the engine is shutting down or has ended.
//   - context.Cause(o.Ctx): o.Ctx is done.
//   - verbs.ErrForeign: o.Loop belongs to another engine.
//   - verbs.ErrNoResources: Config.MaxConns calls of Dial wait for the loop.
func (e *Engine) Dial(addr netip.AddrPort, o *DialOptions) error {
	if o == nil {
		o = &DialOptions{}
	}
	const op = "dial"
	l := o.Loop
	switch {
	case l == nil:
		l = e.nextLoop()
	case !e.owns(l):
		return operr.Wrap(op, errForeignLoop)
	}
	request, err := e.checkDial(addr, o)
	if err == nil {
		err = request.canceled()
	}
	if err != nil {
		return operr.Wrap(op, err)
	}
	if e.stopping.Load() {
		return operr.Wrap(op, e.stoppedError())
	}
	if l.waitingDials.Add(1) > int64(l.cfg.MaxConns) {
		l.waitingDials.Add(-1)
		return operr.Wrap(op, tooManyConns(l.cfg.MaxConns))
	}
	l.load.Add(1)
	if err := l.post(op, func() { l.startDial(o, &request) }, true); err != nil {
		l.load.Add(-1)
		l.waitingDials.Add(-1)
		return err
	}
	return nil
}

// checkDialAddr checks the address that Dial connects to.
func checkDialAddr(addr netip.AddrPort) error {
	reason := ""
	switch {
	case !addr.Addr().IsValid():
		reason = "missing, or not valid"
	case addr.Addr().IsUnspecified():
		reason = addr.Addr().String() + " is the wildcard address, which is not a destination"
	case addr.Addr().IsMulticast():
		reason = addr.Addr().String() + " is a multicast address, to which no connection is possible"
	default:
		return nil
	}
	return &verbs.ParamError{Field: "address", NotNumber: true, Reason: reason}
}

// checkDial checks the arguments of Dial.
func (e *Engine) checkDial(addr netip.AddrPort, o *DialOptions) (r dialRequest, err error) {
	if err := checkDialAddr(addr); err != nil {
		return r, err
	}
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"port", int(addr.Port()), 1, math.MaxUint16},
		{"private data", len(o.PrivateData), 0, e.cfg.privateRoom(cm.MessageConnect, o.ImmediatesOnly)},
		{"retry count", o.RetryCount, -1, verbs.MaxRetry},
		{"RNR retry count", o.RNRRetryCount, -1, verbs.MaxRetry},
		{"responder resources", o.ResponderResources, -1, math.MaxUint8},
		{"initiator depth", o.InitiatorDepth, -1, math.MaxUint8},
	} {
		if err := operr.CheckRange(f.name, f.value, f.low, f.high); err != nil {
			return r, err
		}
	}
	if err := operr.CheckRange("timeout", o.Timeout, 0, cm.MaxTimeout); err != nil {
		return r, err
	}
	if err := operr.CheckRange("ACK timeout", o.AckTimeout, 0, maxAckTimeout); err != nil {
		return r, err
	}
	r = dialRequest{addr: addr, options: *o}
	r.options.PrivateData = bytes.Clone(o.PrivateData)
	r.options.Timeout = orDefault(o.Timeout, e.cfg.Limits.ConnectTimeout)
	r.param = cm.MessageParam{
		PrivateData:        r.options.PrivateData,
		ResponderResources: uint8(orNone(o.ResponderResources, e.cfg.Transport.ResponderResources)),
		InitiatorDepth:     uint8(orNone(o.InitiatorDepth, e.cfg.Transport.InitiatorDepth)),
		RetryCount:         uint8(orNone(o.RetryCount, e.cfg.Transport.RetryCount)),
		RNRRetryCount:      uint8(orNone(o.RNRRetryCount, e.cfg.Transport.RNRRetryCount)),
	}
	return r, nil
}

// setOptions sets the options that listeners and dialed connections have in common. For
// zero values the provider's defaults apply.
func setOptions(id *cm.ID, tos uint8, reuseAddr bool) error {
	if tos > 0 {
		if err := id.SetTOS(tos); err != nil {
			return err
		}
	}
	if !reuseAddr {
		return nil
	}
	return id.SetReuseAddr(true)
}

// handlerOr returns h, or the second parameter if h is nil.
func handlerOr(h Handler, fallback Handler) Handler {
	if h == nil {
		return fallback
	}
	return h
}
