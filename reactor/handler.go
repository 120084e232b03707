package reactor

import "time"

// A Handler is what an application implements; embed BaseHandler and override
// what is needed. Each method runs on the loop it is about and holds up
// everything else on that loop until it returns. One Handler serves all loops
// of an engine, so state of its own needs care when there is more than one. A
// panic in a callback is not recovered.
type Handler interface {
	// OnBoot comes first on every loop. An error stops the engine.
	OnBoot(l *Loop) error
	// OnShutdown comes last on every loop, with all its connections closed.
	// Buffers and memory of the loop end when it returns.
	OnShutdown(l *Loop)
	// OnTick is called once after OnBoot, and again after each delay that it
	// returned; zero or less means never again.
	OnTick(l *Loop) time.Duration

	// OnConnectRequest brings a request that reached a listener, before there is a queue
	// pair. Answer it with Accept or Reject, now or later and from any goroutine. A
	// request that is not answered within Config.DecisionTimeout is rejected.
	// OnConnectRequest is not called when all loops are known to be full; such requests
	// are refused with cm.RejectNoResources and counted in Stats.NoResources. It runs on
	// the loop with index 0.
	OnConnectRequest(req *ConnRequest)
	// OnAcceptError reports that an accepted request did not become a connection. err
	// matches verbs.ErrNoResources if this side had no room; otherwise the peer has gone,
	// for example. Every successful Accept is followed by one of OnOpen and
	// OnAcceptError.
	OnAcceptError(req *ConnRequest, err error)
	// OnListenError reports that a listener was closed. err matches ErrDeviceRemoved when
	// the device was removed, and is the device's error when its asynchronous events can
	// not be read any more. Connections on the device end with the same error;
	// connections on other devices go on. It runs on the loop with index 0.
	OnListenError(ln *Listener, err error)
	// OnOpen says that a connection is established. No data precedes it.
	OnOpen(c *Conn)
	// OnMessage brings one message, in the order they were sent. msg and its
	// data are the handler's until it returns, and longer with Message.Keep.
	OnMessage(c *Conn, msg Message)
	// OnCompletion ends an operation that was one-sided, atomic, or sent with
	// SendOptions.Notify. Memory lent to the operation is the caller's again.
	// Each accepted one is reported exactly once, in order, before OnClose. A
	// failure is a *verbs.CompletionError, and the end of the connection. It also
	// comes for a connection that is being closed in order, which takes no more
	// sends: ErrClosed from a send here is no reason to abort.
	OnCompletion(c *Conn, op Op, err error)
	// OnWritable says that there is room again: a send was refused with
	// ErrWouldBlock, and since then at least half of those before it were
	// confirmed.
	OnWritable(c *Conn)
	// OnClose is called exactly once for each OnOpen, as the last callback for c. err is
	// nil when this side closed and the peer has received everything; ErrPeerClosed when
	// the peer closed the connection; verbs.ErrPeerGone when the peer's process ended
	// without closing it; cm.ErrStale when the peer has forgotten the connection, as
	// after a restart. Other errors say which side failed and why: see the errors of this
	// package, verbs.CompletionError and CloseError.
	OnClose(c *Conn, err error)

	// OnDialError reports that a Dial did not become a connection. Every successful Dial
	// call is followed by one of OnOpen and OnDialError. When the peer refused, err is a
	// *cm.RejectError with the peer's reason and private data. Its ByApplication is true
	// when the peer's application refused. It matches verbs.ErrNoResources when the peer
	// had no room.
	OnDialError(d *Dial, err error)
}

// BaseHandler accepts every request and ignores everything else.
type BaseHandler struct{}

var _ Handler = BaseHandler{}

// OnBoot does nothing.
func (BaseHandler) OnBoot(*Loop) error { return nil }

// OnShutdown does nothing.
func (BaseHandler) OnShutdown(*Loop) {}

// OnTick asks for no ticks.
func (BaseHandler) OnTick(*Loop) time.Duration { return 0 }

// OnConnectRequest accepts.
func (BaseHandler) OnConnectRequest(req *ConnRequest) {
	// It fails only when the engine is shutting down, which refuses the peer.
	_ = req.Accept(nil)
}

// OnAcceptError does nothing.
func (BaseHandler) OnAcceptError(*ConnRequest, error) {}

// OnListenError does nothing.
func (BaseHandler) OnListenError(*Listener, error) {}

// OnOpen does nothing.
func (BaseHandler) OnOpen(*Conn) {}

// OnMessage does nothing.
func (BaseHandler) OnMessage(*Conn, Message) {}

// OnCompletion does nothing.
func (BaseHandler) OnCompletion(*Conn, Op, error) {}

// OnWritable does nothing.
func (BaseHandler) OnWritable(*Conn) {}

// OnClose does nothing.
func (BaseHandler) OnClose(*Conn, error) {}

// OnDialError does nothing.
func (BaseHandler) OnDialError(*Dial, error) {}
