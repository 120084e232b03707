package reactor

import (
	"errors"
	"net/netip"
)

// A Handler has the callbacks of listeners and connections. The application embeds
// BaseHandler and overrides some methods. Each method runs on the goroutine of its loop,
// which does nothing else meanwhile. All loops of an engine share the Handler that New gets, so
// with several loops its methods run at the same time. Listen and Dial may give other ones to
// their requests and connections. A panic in a callback is not
// recovered.
type Handler interface {
	// OnConnectRequest is called for a connection request at a listener, on the loop
	// with index 0. The application answers with Accept or Reject, in the callback or
	// later, on any goroutine. After Config.Limits.DecisionTimeout the request is rejected.
	//
	// If the loop of ListenOptions.Loop is known to be full, or without it all loops are, the
	// engine instead rejects requests with cm.RejectNoResources and counts them in
	// Stats.NoResources.
	OnConnectRequest(req *ConnRequest)
	// OnAcceptError is called when an accepted request did not become a connection, on the
	// loop of ConnRequest.Loop. If Accept returns nil, either OnOpen or OnAcceptError follows.
	//
	// err matches verbs.ErrNoResources if this side had no room, and verbs.ErrProtocol
	// if the peer sent a forbidden request. After other errors, the peer may have given
	// up.
	OnAcceptError(req *ConnRequest, err error)
	// OnListenError is called on the loop with index 0 when the engine has closed a
	// listener because its device has failed. err matches ErrDeviceRemoved, or is the
	// error of reading the device's asynchronous events.
	OnListenError(ln *Listener, err error)
	// OnOpen is called when a connection is established. It is the first callback for c.
	OnOpen(c *Conn)
	// OnMessage is called for each received message, in the order of sending. The handler
	// may use msg and its data until OnMessage returns, and longer after msg.Keep.
	OnMessage(c *Conn, msg Message)
	// OnLongMessage is called for a long message after all earlier messages were received,
	// and before its bytes are read. The handler may call Accept, Parts or Discard of m.
	// Otherwise the message is read into a Buffer, which OnMessage gets; if the Buffer would
	// have more than Memory.LongConnBytes, the connection ends. The handler may use m until
	// OnLongMessage returns.
	OnLongMessage(c *Conn, m *LongMessage)
	// OnPart is called for each part of a message for which the handler has called
	// LongMessage.Parts. The parts come in order: part has the bytes from m.Offset on. The
	// handler may use both until OnPart returns, and the part longer after part.Keep. While
	// the kept parts occupy Memory.LongConnBytes, no further part is read. So a handler that
	// is slower than the network can keep parts, and the memory in use stays limited.
	OnPart(c *Conn, m *LongMessage, part Message)
	// OnCompletion is called once, before OnClose, for each operation of SendV, Write,
	// WriteBytes, Read, CompareSwap, FetchAdd and Hide that is not Quiet or has failed, and for
	// each message sent with OpOptions.Notify. The calls are in the order of the operations,
	// except that of a long message, which comes when the peer has read it. The application
	// may use the operation's memory again.
	//
	// If err is nil, a message is in a receive buffer of the peer. The peer's OnMessage
	// may run later or never. A failure usually is a *verbs.CompletionError, and the
	// connection ends.
	//
	// After Conn.Close, a send in OnCompletion fails with ErrClosed. The handler should
	// ignore this error. If it called Conn.Abort, operations that are still outstanding
	// would fail.
	OnCompletion(c *Conn, op Op, err error)
	// OnWritable is called once after operations were refused with ErrWouldBlock, when at most
	// half of MaxInFlight operations are outstanding, and a message would not have to wait for
	// a long one. After Conn.CheckRoom(n), there is also room for n operations.
	OnWritable(c *Conn)
	// OnStop is called for each open connection when the engine begins to shut down: see
	// Engine.Stop. BaseHandler calls Conn.Close. A handler may first send its last messages,
	// and call Conn.Close in OnStop or in a later callback. If it has not done so within
	// Limits.StopTimeout, the engine does. Until then messages still arrive: Conn.PauseRecv
	// makes the peer keep them.
	OnStop(c *Conn)
	// OnClose is called once for each OnOpen, as the last callback for c. If an operation has
	// failed, or the peer has ended the connection, err is a *CloseError. err is or matches:
	//
	//   - nil: this side has closed, and the peer has confirmed everything.
	//   - ErrPeerClosed: the peer has closed, aborted or failed. On RDMA devices, too, if the
	//     kernel of the peer has disconnected because its process has ended. CloseError.Peer
	//     has the reason.
	//   - verbs.ErrPeerGone: the peer's process has ended, on the local path of
	//     provider/soft. On its wire path such a peer is silent: see the next two.
	//   - *verbs.CompletionError: a request has failed. With StatusRetryExcErr the peer is
	//     silent: by default 8.6 s after an unconfirmed send (Config.PeerTimeout).
	//   - ErrKeepalive: the peer is silent on an idle connection: by default after about
	//     39 s (Config.PeerTimeout, Keepalive).
	//   - ErrDrainTimeout: after Close, the peer has not confirmed all sends in time.
	//   - ErrTimeout, ErrIdle: see Conn.SetTimeout and Conn.SetIdleTimeout.
	//   - cm.ErrStale: the peer does not know the connection any more.
	//   - verbs.ErrProtocol: the peer has sent an invalid or forbidden request.
	//   - the argument of Conn.Abort.
	//   - another error of this package, such as ErrShutdown or ErrDeviceRemoved, or of posting
	//     requests.
	OnClose(c *Conn, err error)

	// OnDialError is called on the loop l when a Dial to addr that returned nil did not lead
	// to a connection. o is the pointer passed to Dial, or a new pointer if nil was passed.
	// The text of err begins with the address, and errors.Unwrap returns the reason, which is
	// or matches:
	//
	//   - *cm.RejectError: the peer has rejected the request.
	//   - verbs.ErrNoResources: this side or the peer has no room.
	//   - cm.ErrTimedOut: no answer within DialOptions.Timeout or Limits.ConnectTimeout.
	//   - cm.ErrRefused: the peer has rejected the request, or no process has its port.
	//   - context.Cause(o.Ctx): o.Ctx was done.
	//   - the error of DialOptions.PrivateDataFor.
	//   - ErrShutdown, ErrDeviceRemoved, or another error of cm.
	OnDialError(l *Loop, addr netip.AddrPort, o *DialOptions, err error)
}

// BaseHandler is a Handler that accepts every request, closes the connections when the engine
// stops, logs failures of dialing, accepting and listening with Config.Logger, and ignores
// everything else.
type BaseHandler struct{}

var _ Handler = BaseHandler{}

// OnConnectRequest accepts the request.
func (BaseHandler) OnConnectRequest(req *ConnRequest) {
	// Accept fails for a request that has ended. Nothing is left to do.
	_ = req.Accept(nil)
}

// OnAcceptError logs a warning, unless the engine is shutting down.
func (BaseHandler) OnAcceptError(req *ConnRequest, err error) {
	if !errors.Is(err, ErrShutdown) {
		req.engine.log.Warn("reactor: an accepted request has failed", "remote", req.remote, "error", err)
	}
}

// OnListenError logs an error.
func (BaseHandler) OnListenError(ln *Listener, err error) {
	ln.acceptor.engine.log.Error("reactor: a listener was closed", "address", ln.Addr(), "error", err)
}

// OnOpen does nothing.
func (BaseHandler) OnOpen(*Conn) {}

// OnMessage does nothing.
func (BaseHandler) OnMessage(*Conn, Message) {}

// OnLongMessage does nothing, so OnMessage gets the whole message.
func (BaseHandler) OnLongMessage(*Conn, *LongMessage) {}

// OnPart does nothing.
func (BaseHandler) OnPart(*Conn, *LongMessage, Message) {}

// OnCompletion does nothing.
func (BaseHandler) OnCompletion(*Conn, Op, error) {}

// OnWritable does nothing.
func (BaseHandler) OnWritable(*Conn) {}

// OnStop closes the connection.
func (BaseHandler) OnStop(c *Conn) { _ = c.Close() } // Close does not fail for an open connection.

// OnClose does nothing.
func (BaseHandler) OnClose(*Conn, error) {}

// OnDialError logs a warning, unless the engine is shutting down.
func (BaseHandler) OnDialError(l *Loop, _ netip.AddrPort, _ *DialOptions, err error) {
	if !errors.Is(err, ErrShutdown) {
		l.engine.log.Warn("reactor: a dial has failed", "error", err)
	}
}

// A method onX in this file calls OnX of Handler. It counts and logs connection events, and
// measures the duration if Config says so.

func (l *Loop) onConnectRequest(req *ConnRequest) {
	l.stats.Requests++
	l.callbackStart("OnConnectRequest", nil, nil)
	req.listener.handler.OnConnectRequest(req)
	l.callbackEnd()
}

func (l *Loop) onAcceptError(req *ConnRequest, err error) {
	l.stats.AcceptErrors++
	l.callbackStart("OnAcceptError", nil, err)
	req.listener.handler.OnAcceptError(req, err)
	l.callbackEnd()
}

func (l *Loop) onListenError(ln *Listener, err error) {
	l.callbackStart("OnListenError", nil, err)
	ln.handler.OnListenError(ln, err)
	l.callbackEnd()
}

func (l *Loop) onDialError(c *Conn, err error) {
	l.stats.DialErrors++
	l.callbackStart("OnDialError", c, err)
	c.handler.OnDialError(l, c.info.remote, c.info.dialOptions, err)
	l.callbackEnd()
}

func (l *Loop) onOpen(c *Conn) {
	l.stats.Opened++
	c.logOpen()
	l.callbackStart("OnOpen", c, nil)
	c.handler.OnOpen(c)
	l.callbackEnd()
}

func (l *Loop) onLongMessage(c *Conn) {
	l.callbackStart("OnLongMessage", c, nil)
	c.handler.OnLongMessage(c, (*LongMessage)(c.long))
	l.callbackEnd()
}

func (l *Loop) onPart(c *Conn, part Message) {
	l.callbackStart("OnPart", c, nil)
	c.handler.OnPart(c, (*LongMessage)(c.long), part)
	l.callbackEnd()
}

func (l *Loop) onCompletion(c *Conn, op Op, err error) {
	l.callbackStart("OnCompletion", c, err)
	c.handler.OnCompletion(c, op, err)
	l.callbackEnd()
}

func (l *Loop) onWritable(c *Conn) {
	l.callbackStart("OnWritable", c, nil)
	c.handler.OnWritable(c)
	l.callbackEnd()
}

func (l *Loop) onStop(c *Conn) {
	l.callbackStart("OnStop", c, nil)
	c.handler.OnStop(c)
	l.callbackEnd()
}

func (l *Loop) onClose(c *Conn, err error) {
	l.stats.Closed++
	c.logClosed(err)
	l.callbackStart("OnClose", c, err)
	c.handler.OnClose(c, err)
	l.callbackEnd()
}
