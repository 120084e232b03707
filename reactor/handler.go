package reactor

import "time"

// A Handler is implemented by the application, which embeds BaseHandler and overrides the
// methods that it needs. Each method runs on the goroutine of the loop to which its
// arguments belong. While it runs, that loop does nothing else. All loops of an engine
// call the same Handler. If the engine has several loops, the application must
// synchronize the accesses to fields of its Handler. A panic in a callback is not
// recovered.
type Handler interface {
	// OnBoot is the first callback on every loop. If it returns an error, the engine
	// stops.
	OnBoot(l *Loop) error
	// OnShutdown is the last callback on every loop on which OnBoot has returned nil. On
	// other loops it is not called. When it is called, all connections of the loop are
	// closed. Buffers and memory of the loop are unmapped when OnShutdown returns.
	OnShutdown(l *Loop)
	// OnTick is called once after OnBoot. The result is the time after which OnTick is
	// called again; zero or less means that it is not called again.
	OnTick(l *Loop) time.Duration

	// ConnHandler has the callbacks of the listeners and connections that have no
	// ConnHandler of their own.
	ConnHandler
}

// A ConnHandler has the callbacks of listeners and connections. ListenOptions.Handler is
// the ConnHandler of a listener and of the connections that it accepts.
// DialOptions.Handler is the ConnHandler of a connection that this side opens. A
// listener or connection whose options have no ConnHandler uses the Handler of the
// engine. The application embeds BaseConnHandler and overrides the methods that it
// needs. For the goroutines on which the methods run, see Handler.
type ConnHandler interface {
	// OnConnectRequest is called when a connection request has arrived at a listener. There
	// is no queue pair yet. The application must answer the request with Accept or Reject,
	// in OnConnectRequest or later, on any goroutine. A request that is not answered within
	// Config.DecisionTimeout is rejected. When all loops are known to be full,
	// OnConnectRequest is not called; such requests are rejected with cm.RejectNoResources
	// and counted in Stats.NoResources. OnConnectRequest runs on the loop with index 0.
	OnConnectRequest(req *ConnRequest)
	// OnAcceptError is called when an accepted request did not become a connection. err
	// matches verbs.ErrNoResources if this side had no room. Other errors mean, for
	// example, that the peer has given up the request, or has sent a request that is not
	// allowed (verbs.ErrProtocol). After every successful Accept either OnOpen or
	// OnAcceptError is called.
	OnAcceptError(req *ConnRequest, err error)
	// OnListenError is called when the engine has closed a listener because of its
	// device. If the device was removed, err matches ErrDeviceRemoved. If the
	// asynchronous events of the device can not be read any more, err is the error of
	// reading them. Connections on the device end with the same error; connections on
	// other devices are not affected. OnListenError runs on the loop with index 0.
	OnListenError(ln *Listener, err error)
	// OnOpen is called when a connection is established. It is the first callback for c.
	OnOpen(c *Conn)
	// OnMessage is called for each received message, in the order in which the peer has
	// sent them. The handler may use msg and its data until OnMessage returns, and longer
	// if it calls msg.Keep.
	OnMessage(c *Conn, msg Message)
	// OnCompletion is called when a one-sided or atomic operation has completed, or a
	// message that was sent with SendOptions.Notify. The application may then use the
	// memory of the operation again. A nil err for a message means that the message is
	// in a receive buffer of the peer. The peer's OnMessage may run later or, if the
	// peer calls Close or Abort first, never. Each accepted operation of these kinds is
	// reported exactly once, in the order of the calls, and before OnClose. If the
	// operation has failed, err usually matches *verbs.CompletionError with errors.As,
	// and the connection ends. OnCompletion is also called after Conn.Close. A send in
	// OnCompletion then returns ErrClosed; the application should not call Abort because
	// of that error, because Abort would make other outstanding operations fail.
	OnCompletion(c *Conn, op Op, err error)
	// OnWritable is called once after one or more sends were refused with ErrWouldBlock,
	// when at most half of MaxInFlight operations are outstanding.
	OnWritable(c *Conn)
	// OnClose is called exactly once for each OnOpen, as the last callback for c. err is
	// nil if this side has closed the connection and the peer has confirmed everything;
	// the peer's OnMessage may not have run for every message. err matches ErrPeerClosed
	// if the peer has closed or aborted the connection, verbs.ErrPeerGone if the peer's
	// process has ended without closing it, and cm.ErrStale if the peer does not know
	// the connection any more, for example after a restart. err matches
	// verbs.ErrProtocol if the peer has sent a request that is not valid or not allowed,
	// such as a WRITE with a wrong key: see AsyncError. Other errors say which side
	// failed and why: see the errors of this package, verbs.CompletionError and
	// CloseError.
	OnClose(c *Conn, err error)

	// OnDialError is called when a call of Dial did not lead to a connection. After
	// every call of Dial that returned nil, either OnOpen or OnDialError is called. If
	// the peer has rejected the request, err is a *cm.RejectError with the peer's reason
	// and private data. The field ByApplication of this error is true if the peer's
	// application has rejected the request. err matches verbs.ErrNoResources in two
	// cases: the peer had no room, or this side had no room, for example because of
	// Config.MaxConns. Only in the first case err is also a *cm.RejectError. err matches
	// cm.ErrTimedOut if nobody has answered within DialOptions.Timeout or, if that is
	// zero, Config.ConnectTimeout. If the connection manager gives up earlier, or the
	// host reports by ICMP that its port is closed, err is a *cm.UnreachableError.
	//
	// err is always a *DialError, which has the address. The other errors are inside it:
	// errors.As and errors.Is find them. o is the argument of Dial or, if that was nil, a
	// new DialOptions with no option set.
	OnDialError(o *DialOptions, err error)
}

// BaseConnHandler is a ConnHandler that accepts every request and ignores everything
// else.
type BaseConnHandler struct{}

var _ ConnHandler = BaseConnHandler{}

// OnConnectRequest accepts the request.
func (BaseConnHandler) OnConnectRequest(req *ConnRequest) {
	// Accept fails if the request has already ended, or if the engine is shutting down
	// and has rejected the request. In both cases nothing is left to do.
	_ = req.Accept(nil)
}

// OnAcceptError does nothing.
func (BaseConnHandler) OnAcceptError(*ConnRequest, error) {}

// OnListenError does nothing.
func (BaseConnHandler) OnListenError(*Listener, error) {}

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

// OnDialError does nothing.
func (BaseConnHandler) OnDialError(*DialOptions, error) {}

// BaseHandler accepts every request and ignores everything else.
type BaseHandler struct{ BaseConnHandler }

var _ Handler = BaseHandler{}

// OnBoot does nothing.
func (BaseHandler) OnBoot(*Loop) error { return nil }

// OnShutdown does nothing.
func (BaseHandler) OnShutdown(*Loop) {}

// OnTick returns 0, so that it is not called again.
func (BaseHandler) OnTick(*Loop) time.Duration { return 0 }
