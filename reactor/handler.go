package reactor

import (
	"errors"
	"time"
)

// A Handler is implemented by the application, which embeds BaseHandler and overrides
// some methods. Each method runs on the goroutine of its loop, which does nothing else
// meanwhile. All loops of an engine share the Handler. A panic in a callback is not
// recovered.
type Handler interface {
	// OnBoot is the first callback on every loop. If it returns an error, the engine
	// stops.
	OnBoot(l *Loop) error
	// OnShutdown is the last callback on a loop on which OnBoot has returned nil. All
	// connections are closed then. The loop's buffers and memory are unmapped when
	// OnShutdown returns.
	OnShutdown(l *Loop)
	// OnTick is called after OnBoot. The result is the time until the next call; zero or
	// less means none.
	OnTick(l *Loop) time.Duration

	// ConnHandler has the callbacks of the listeners and connections that have no
	// ConnHandler of their own.
	ConnHandler
}

// A ConnHandler has the callbacks of listeners and connections. The application embeds
// BaseConnHandler and overrides some methods. For goroutines see Handler. The default in
// ListenOptions and DialOptions is the Handler of the engine.
type ConnHandler interface {
	// OnConnectRequest is called for a connection request at a listener, on the loop
	// with index 0. The application answers with Accept or Reject, in the callback or
	// later, on any goroutine. After Config.DecisionTimeout the request is rejected.
	//
	// If all loops are known to be full, the engine instead rejects requests with
	// cm.RejectNoResources and counts them in Stats.NoResources.
	OnConnectRequest(req *ConnRequest)
	// OnAcceptError is called when an accepted request did not become a connection. If
	// Accept returns nil, either OnOpen or OnAcceptError follows.
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
	// OnCompletion is called once for each one-sided or atomic operation, and for each
	// message sent with SendOptions.Notify, in order and before OnClose. The application
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
	// half of MaxInFlight operations are outstanding. After Conn.CheckRoom(n), there is also
	// room for n operations.
	OnWritable(c *Conn)
	// OnClose is called once for each OnOpen, as the last callback for c. See also
	// CloseError. err is or matches:
	//
	//   - nil: this side has closed, and the peer has confirmed everything.
	//   - ErrPeerClosed: the peer has closed or aborted, or its kernel has disconnected
	//     because the process has ended. CloseError.Peer has the reason.
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
	//   - another error of this package, such as ErrShutdown or ErrDeviceRemoved.
	OnClose(c *Conn, err error)

	// OnDialError is called when a Dial that returned nil did not lead to a connection.
	// o is the pointer passed to Dial, or a new pointer if nil was passed. err is a
	// *DialError, which has the address and contains:
	//
	//   - *cm.RejectError: the peer has rejected the request.
	//   - verbs.ErrNoResources: this side or the peer has no room.
	//   - cm.ErrTimedOut: no answer within DialOptions.Timeout or Config.ConnectTimeout.
	//   - cm.ErrRefused: the peer has rejected the request, or no process has its port.
	OnDialError(o *DialOptions, err error)
}

// BaseConnHandler is a ConnHandler that accepts every request, logs failures of dialing,
// accepting and listening with Config.Logger, and ignores everything else.
type BaseConnHandler struct{}

var _ ConnHandler = BaseConnHandler{}

// OnConnectRequest accepts the request.
func (BaseConnHandler) OnConnectRequest(req *ConnRequest) {
	// Accept fails for a request that has ended. Nothing is left to do.
	_ = req.Accept(nil)
}

// OnAcceptError logs a warning, unless the engine is shutting down.
func (BaseConnHandler) OnAcceptError(req *ConnRequest, err error) {
	if !errors.Is(err, ErrShutdown) {
		req.engine.log.Warn("reactor: an accepted request has failed", "remote", req.remote, "error", err)
	}
}

// OnListenError logs an error.
func (BaseConnHandler) OnListenError(ln *Listener, err error) {
	ln.acceptor.engine.log.Error("reactor: a listener was closed", "address", ln.Addr(), "error", err)
}

// OnOpen does nothing.
func (BaseConnHandler) OnOpen(*Conn) {}

// OnMessage does nothing.
func (BaseConnHandler) OnMessage(*Conn, Message) {}

// OnCompletion does nothing.
func (BaseConnHandler) OnCompletion(*Conn, Op, error) {}

// OnWritable does nothing.
func (BaseConnHandler) OnWritable(*Conn) {}

// OnClose does nothing.
func (BaseConnHandler) OnClose(*Conn, error) {}

// OnDialError logs a warning, unless the engine is shutting down.
func (BaseConnHandler) OnDialError(_ *DialOptions, err error) {
	var dial *DialError
	if errors.As(err, &dial) && dial.log != nil && !errors.Is(err, ErrShutdown) {
		dial.log.Warn("reactor: a dial has failed", "error", err)
	}
}

// BaseHandler is a Handler with the methods of BaseConnHandler, which ignores everything
// else.
type BaseHandler struct{ BaseConnHandler }

var _ Handler = BaseHandler{}

// OnBoot does nothing.
func (BaseHandler) OnBoot(*Loop) error { return nil }

// OnShutdown does nothing.
func (BaseHandler) OnShutdown(*Loop) {}

// OnTick returns 0, so that it is not called again.
func (BaseHandler) OnTick(*Loop) time.Duration { return 0 }

// A StopHandler is a ConnHandler that has to send something before its connections are
// closed, for example because a protocol has a message for the end.
type StopHandler interface {
	ConnHandler
	// OnStop is called for each open connection when the engine begins to shut down: see
	// Engine.Stop. Without this method the engine calls Conn.Close. The handler sends its
	// last messages and calls Conn.Close, in OnStop or in a later callback. If it has not
	// done so within Config.DrainTimeout, the engine does. Until then messages still arrive:
	// Conn.PauseRecv makes the peer keep them.
	OnStop(c *Conn)
}

// A method onX in this file calls OnX of Handler or ConnHandler. It counts connection events,
// and with Config.SlowCallback measures the duration.

// onTick calls OnTick. If the result of OnTick is positive, onTick sets the timer for
// the next call.
func (l *Loop) onTick() {
	t := l.callbackStart("OnTick", nil, nil)
	again := l.handler.OnTick(l)
	l.callbackEnd(t)
	if again > 0 {
		l.setTimer(&l.ticker, again)
	}
}

func (l *Loop) onConnectRequest(req *ConnRequest) {
	l.stats.Requests++
	t := l.callbackStart("OnConnectRequest", nil, nil)
	req.listener.handler.OnConnectRequest(req)
	l.callbackEnd(t)
}

func (l *Loop) onAcceptError(req *ConnRequest, err error) {
	l.stats.AcceptErrors++
	t := l.callbackStart("OnAcceptError", nil, err)
	req.listener.handler.OnAcceptError(req, err)
	l.callbackEnd(t)
}

func (l *Loop) onDialError(c *Conn, err error) {
	l.stats.DialErrors++
	t := l.callbackStart("OnDialError", c, err)
	c.handler.OnDialError(c.dialOptions, err)
	l.callbackEnd(t)
}

func (l *Loop) onOpen(c *Conn) {
	l.stats.Opened++
	t := l.callbackStart("OnOpen", c, nil)
	c.handler.OnOpen(c)
	l.callbackEnd(t)
}

func (l *Loop) onLongMessage(c *Conn, h LongHandler) {
	t := l.callbackStart("OnLongMessage", c, nil)
	h.OnLongMessage(c, (*LongMessage)(c.long))
	l.callbackEnd(t)
}

// onPart calls OnPart. Only a LongHandler can have called LongMessage.Parts.
func (l *Loop) onPart(c *Conn, p Part) {
	t := l.callbackStart("OnPart", c, nil)
	c.handler.(LongHandler).OnPart(c, p)
	l.callbackEnd(t)
}

func (l *Loop) onCompletion(c *Conn, op Op, err error) {
	t := l.callbackStart("OnCompletion", c, err)
	c.handler.OnCompletion(c, op, err)
	l.callbackEnd(t)
}

func (l *Loop) onWritable(c *Conn) {
	t := l.callbackStart("OnWritable", c, nil)
	c.handler.OnWritable(c)
	l.callbackEnd(t)
}

func (l *Loop) onStop(c *Conn, h StopHandler) {
	t := l.callbackStart("OnStop", c, nil)
	h.OnStop(c)
	l.callbackEnd(t)
}

func (l *Loop) onClose(c *Conn, err error) {
	l.stats.Closed++
	t := l.callbackStart("OnClose", c, err)
	c.handler.OnClose(c, err)
	l.callbackEnd(t)
}
