package reactor

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/reactor/internal/longmsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An opening is what a connection needs until OnOpen. It is part of the dialRequest or of
// the ConnRequest.
type opening struct {
	dial    *dialRequest // arguments of Dial; nil on the accepting side
	request *ConnRequest // request that was accepted; nil on the dialing side
	held    bufferList   // messages that have arrived
	// timeouts is how many times a timeout may still be repeated. It is 0 until the first
	// timeout.
	timeouts int
}

// limit returns how long the connection may take to open.
func (o *opening) limit(cfg *Config) time.Duration {
	if o.dial != nil {
		return o.dial.options.Timeout
	}
	return cfg.Limits.ConnectTimeout
}

// mayRepeat counts a timeout, and reports whether it may be repeated. The parameter conns
// is the number of connections whose events may wait.
func (o *opening) mayRepeat(conns int) bool {
	if o.timeouts == 0 {
		o.timeouts = conns + 1
	}
	o.timeouts--
	return o.timeouts > 0
}

// newConn makes a connection, adds it to the loop, and sets the time limit for opening.
// It returns the connection even after an error, because Conn.refuse needs it.
func (l *Loop) newConn(o *opening) (c *Conn, err error) {
	c = &Conn{loop: l, opening: o}
	owner := (*connTimers)(c)
	c.stateTimer.Owner, c.times.timeout.Owner, c.times.keepalive.Owner = owner, owner, owner
	l.liveConns++
	l.openingConns++
	l.epoll.checkSoon()
	c.enterFor(stateDialing, o.limit(l.cfg))
	if !l.conns.add(c) {
		err = tooManyConns(maxConns)
	}
	if limit := l.cfg.MaxConns; l.conns.count() > limit {
		err = tooManyConns(limit)
	}
	if l.state > loopRunning {
		err = ErrShutdown
	}
	return c, err
}

// tooManyConns returns the error of a loop that already has limit connections.
func tooManyConns(limit int) error {
	return asNoResources(&verbs.ParamError{Field: "connections", Value: int64(limit) + 1, Limit: int64(limit), Reason: "Config.MaxConns limits the connections of a loop"})
}

// choose sets what DialOptions and ListenOptions have in common.
func (c *Conn) choose(immediatesOnly, ownRecvs, messageTime bool) {
	c.immediatesOnly, c.ownRecvs = immediatesOnly, immediatesOnly || ownRecvs
	c.messageTime, c.wantsTime = messageTime, messageTime || c.loop.latency != nil
}

// startDial makes the connection for a call of Dial and begins to resolve the address of
// the peer.
func (l *Loop) startDial(o *DialOptions, request *dialRequest) {
	l.waitingDials.Add(-1)
	l.stats.Dials++
	request.opening.dial = request
	c, err := l.newConn(&request.opening)
	c.UserData, c.info.dialOptions, c.info.remote = request.options.UserData, o, request.addr
	c.handler = handlerOr(request.options.Handler, l.handler)
	c.logDial()
	c.choose(request.options.ImmediatesOnly, request.options.OwnRecvQueue, request.options.MessageTime)
	if err == nil {
		err = request.watch(c)
	}
	if err == nil {
		err = c.resolve()
	}
	if err != nil {
		c.refuse(err)
	}
}

// resolve makes the ID of the connection and begins to resolve the address of the peer.
func (c *Conn) resolve() (err error) {
	if c.id, err = c.loop.channel.NewID(cm.TCP); err != nil {
		return err
	}
	c.id.SetUserData(c)
	o := &c.opening.dial.options
	if err := setOptions(c.id, o.TOS, o.ReuseAddr); err != nil {
		return err
	}
	return operr.Cause(c.id.ResolveAddr(o.LocalAddr, c.opening.dial.addr, o.Timeout)) // The error of OnDialError says what has failed.
}

// addrResolved handles cm.AddrResolved and begins to resolve the route. From this event
// on the device is known.
func (c *Conn) addrResolved() error {
	if err := c.setTransportTimers(c.opening.dial.options.AckTimeout, c.opening.dial.param.RetryCount); err != nil {
		return err
	}
	return c.id.ResolveRoute(c.opening.limit(c.loop.cfg))
}

// setTransportTimers sets the ACK timeout and the RNR timer for the queue pair of the
// ID. The parameters are those of Config.ackTimeoutCode.
func (c *Conn) setTransportTimers(ackTimeout time.Duration, retries uint8) error {
	if code := c.loop.cfg.ackTimeoutCode(ackTimeout, retries); code > 0 {
		if err := c.id.SetAckTimeout(code); err != nil {
			return err
		}
	}
	return c.id.SetMinRNRTimer(c.loop.cfg.rnrTimerCode())
}

// connParam returns the parameters that the connection manager sends to the peer.
func connParam(p *cm.MessageParam) *cm.ConnParam {
	param := p.ConnParam()
	param.PrivateData = p.PrivateData
	return param
}

// routeResolved handles cm.RouteResolved. It makes the queue pair and sends the
// connection request.
func (c *Conn) routeResolved() error {
	if err := c.makeQP(); err != nil {
		return err
	}
	dial, attr := c.opening.dial, c.device.dev.Attr()
	param := dial.param
	param.ResponderResources = min(param.ResponderResources, attr.MaxQPRdAtom)
	param.InitiatorDepth = min(param.InitiatorDepth, attr.MaxQPInitRdAtom)
	room := c.loop.cfg.privateRoom(cm.MessageConnect, c.immediatesOnly)
	if err := c.makePrivateData(dial.options.PrivateDataFor, room, &param); err != nil {
		return err
	}
	param.PrivateData = c.offer(param.PrivateData, cm.MessageConnect, param.InitiatorDepth)
	return c.id.Connect(connParam(&param))
}

// makePrivateData sets the private data of param to the result of the function f, unless
// f is nil. The parameter room is the largest length of the data.
func (c *Conn) makePrivateData(f func(*Conn) ([]byte, error), room int, param *cm.MessageParam) error {
	if f == nil {
		return nil
	}
	data, err := f(c)
	if err != nil {
		return err
	}
	param.PrivateData = bytes.Clone(data)
	return operr.CheckRange("private data", len(data), 0, room)
}

// setNegotiated stores the parameters and the private data of the peer's reply. The
// dialing side calls it for cm.Established.
func (c *Conn) setNegotiated(ev *cm.Event) {
	c.setParam(&ev.Param, c.opening.dial.param.RetryCount, ev.Param.RNRRetryCount)
	c.info.peerPrivate = ev.Param.PrivateData
	if c.loop.cfg.MaxLongMessage > 0 {
		user, limit, ok := longmsg.SplitOffer(c.info.peerPrivate, cm.MaxPrivateData(cm.TCP, cm.MessageAccept))
		if c.info.peerPrivate = user; ok {
			c.agree(limit)
		}
	}
	c.info.credentials = credentialsOf(c.id)
}

// setParam stores the negotiated parameters.
func (c *Conn) setParam(p *cm.MessageParam, retries, rnrRetries uint8) {
	c.info.param = negotiated{p.ResponderResources, p.InitiatorDepth, p.FlowControl, retries, rnrRetries}
}

// startAccept makes the connection for a request that the application has accepted.
func (l *Loop) startAccept(req *ConnRequest, p *AcceptOptions) {
	l.logAccepted(req)
	req.opening.request = req
	c, err := l.newConn(&req.opening)
	options := &req.listener.options
	c.handler = req.listener.handler
	c.choose(options.ImmediatesOnly, options.OwnRecvQueue, options.MessageTime)
	c.info.peerPrivate, c.info.credentials = req.privateData, req.process
	if err == nil {
		err = c.moveID()
	}
	if err == nil {
		err = c.acceptRequest(p)
	}
	switch {
	case err == nil:
		l.recordRoom(req.device, true)
	case errors.Is(err, verbs.ErrNoResources):
		l.recordRoom(req.device, false)
	}
	if err != nil {
		c.rejectNoRoom(err)
		c.refuse(err)
	}
}

// rejectNoRoom rejects an accepted request for which no connection could be made. It
// sends no answer if the peer has given up, the device was removed, or the loop is
// shutting down.
func (c *Conn) rejectNoRoom(cause error) {
	req := c.opening.request
	reject := func() error { return nil }
	if !errors.Is(cause, ErrShutdown) && !errors.Is(cause, verbs.ErrPeerGone) && !errors.Is(cause, ErrDeviceRemoved) {
		c.loop.stats.NoResources++
		reject = req.id.RejectNoResources
	}
	if c.id == nil { // The ID was not moved to this loop, and belongs to the acceptor.
		_ = req.engine.acceptor.rejectWith(req, reject)
	} else {
		_ = reject()
	}
}

// moveID moves the ID of the request from the acceptor to the loop, before the ID gets a
// queue pair.
func (c *Conn) moveID() error {
	req := c.opening.request
	if err := req.engine.acceptor.moveID(req, c.loop.channel); err != nil {
		return err
	}
	c.id = req.id
	c.id.SetUserData(c)
	return nil
}

// acceptRequest makes the queue pair and accepts the request.
func (c *Conn) acceptRequest(p *AcceptOptions) error {
	req := c.opening.request
	if err := c.makeQP(); err != nil {
		return err
	}
	if err := c.setTransportTimers(req.listener.options.AckTimeout, req.param.RetryCount); err != nil {
		return err
	}
	c.UserData = req.user
	param := req.acceptParam(p, c.device.dev.Attr())
	if err := c.makePrivateData(p.PrivateDataFor, req.privateRoom(), &param); err != nil {
		return err
	}
	agreed := req.hasOffer && !c.immediatesOnly
	if agreed {
		param.PrivateData = c.offer(param.PrivateData, cm.MessageAccept, param.InitiatorDepth)
	}
	if err := c.id.Accept(connParam(&param)); err != nil {
		return err
	}
	c.setParam(&param, req.param.RetryCount, req.param.RNRRetryCount)
	if agreed {
		c.agree(req.longLimit)
	}
	return nil
}

// makeQP makes the queue pair and reserves places on a CQ. It posts receive buffers,
// because the peer's first message may precede cm.Established.
func (c *Conn) makeQP() (err error) {
	if c.device, err = c.loop.device(c.id.Device()); err != nil {
		return err
	}
	if c.device.failure != nil {
		return c.device.failure
	}
	if c.queue, err = c.device.reserve(c.places()); err != nil {
		return asNoResources(err)
	}
	if c.sharesRecv() {
		if err := c.device.sharedRecv.prepare(); err != nil {
			return err
		}
	}
	if err := c.id.CreateQP(c.device.pd(), c.device.qpAttr(c)); err != nil {
		return asNoResources(err)
	}
	c.qp = c.id.QP()
	c.loop.engine.qpOwners.add(c.qp, c)
	c.info.local, c.info.remote = c.id.LocalAddr(), c.id.RemoteAddr()
	c.info.qpNum = c.qp.Num()
	c.on(eventQueuePair)
	c.makeSendQueue()
	return c.makeRecvQueue()
}

// makeSendQueue sets the fields of the connection that describe its send queue.
func (c *Conn) makeSendQueue() {
	cfg := c.loop.cfg
	c.sends.flow = newSendFlow(cfg.MaxInFlight, cfg.Transport.SignalEvery, cfg.longSlots())
	c.sends.maxInline = int32(min(c.qp.Caps().MaxInline, cfg.Transport.MaxInline, math.MaxInt32))
	c.sends.maxSGE = int32(min(cfg.maxPieces(c.device.dev), math.MaxInt32))
}

// sharesRecv reports whether the connection uses the shared receive queue.
func (c *Conn) sharesRecv() bool { return c.device.sharedRecv != nil && !c.ownRecvs }

// places returns the number of places that the completions of the connection need in a
// CQ.
func (c *Conn) places() int { return c.device.completionsPerConn(!c.sharesRecv()) }

// makeRecvQueue makes the receive queue and posts its requests, or adds the connection to
// the shared receive queue.
func (c *Conn) makeRecvQueue() error {
	if c.sharesRecv() {
		c.device.sharedRecv.add(c.info.qpNum, c)
		return nil
	}
	depth := c.loop.cfg.ownRecvBuffers()
	if c.immediatesOnly {
		c.recvs.empty = newEmptyRecvs(depth, c.key)
		doorbells, err := c.recvs.empty.post(c.qp)
		c.loop.stats.RecvDoorbells += doorbells
		return err
	}
	c.recvs.own = newRecvQueue(depth, c.key)
	for range depth {
		b, err := c.device.smallBuffer()
		if err != nil {
			return asNoResources(err)
		}
		c.recvs.own.stage(b)
	}
	doorbells, err := c.recvs.own.post(c.qp)
	c.loop.stats.RecvDoorbells += doorbells
	return err
}

// open moves an established connection to stateOpen. It calls OnOpen, and then OnMessage
// for the messages that have arrived.
func (c *Conn) open() {
	if err := c.opening.dial.canceled(); err != nil {
		c.closing.call = CloseAborted
		c.disconnect()
		c.endWith(err)
		return
	}
	if err := c.setRNRTimer(); err != nil {
		c.endWith(err)
		return
	}
	if c.device.recvModes {
		if err := c.qp.SetRecvMode(verbs.RecvInline); err != nil {
			c.endWith(err)
			return
		}
	}
	c.enter(stateOpen)
	c.loop.openingConns--
	c.opening.dial.end()
	held := c.opening.held
	c.opening = nil
	c.times.openedAt = c.loop.clock.now
	c.sends.confirmedAt = c.times.openedAt
	c.startKeepalive()
	c.loop.onOpen(c)
	for b := held.pop(); b != nil; b = held.pop() {
		c.deliver(b)
	}
}

// setRNRTimer sets the RNR timer of the queue pair to Config.Transport.MinRNRTimer. Some
// connection managers ignore setTransportTimers and use 655 ms (rdma_accept(3)).
func (c *Conn) setRNRTimer() error {
	c.loop.qpAttr = verbs.QPAttr{MinRNRTimer: c.loop.cfg.rnrTimerCode()}
	err := c.qp.Modify(&c.loop.qpAttr, verbs.AttrMinRNRTimer)
	switch {
	case errors.Is(err, verbs.ErrNotSupported):
		return nil // A device for iWARP has no RNR timer.
	case err != nil && c.qp.State() == verbs.StateError:
		return errFailedEarly
	}
	return err
}
