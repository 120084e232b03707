package reactor

import "time"

// A method onX in this file calls OnX of Handler or ConnHandler and counts the call.
// With Config.SlowCallback it also measures the duration.

// callbackStart is called before a callback. It returns the present time if
// Config.SlowCallback is set, and else 0.
func (l *Loop) callbackStart() time.Duration {
	if l.cfg.SlowCallback == 0 {
		return 0
	}
	return l.clock.read()
}

// callbackEnd is called after a callback. If Config.SlowCallback is set, it updates
// Stats.LongestCallback and Stats.SlowCallbacks. The parameter startTime is the result
// of callbackStart.
func (l *Loop) callbackEnd(startTime time.Duration) {
	if l.cfg.SlowCallback == 0 {
		return
	}
	l.clock.worked = true
	took := l.clock.read() - startTime
	l.stats.LongestCallback = max(l.stats.LongestCallback, took)
	if took > l.cfg.SlowCallback {
		l.stats.SlowCallbacks++
	}
}

// onTick calls OnTick. If the result of OnTick is positive, onTick sets the timer for
// the next call.
func (l *Loop) onTick() {
	t := l.callbackStart()
	again := l.handler.OnTick(l)
	l.callbackEnd(t)
	if again > 0 {
		l.setTimer(&l.ticker, again)
	}
}

func (l *Loop) onConnectRequest(req *ConnRequest) {
	l.stats.Requests++
	t := l.callbackStart()
	req.listener.handler.OnConnectRequest(req)
	l.callbackEnd(t)
}

func (l *Loop) onAcceptError(req *ConnRequest, err error) {
	l.stats.AcceptErrors++
	t := l.callbackStart()
	req.listener.handler.OnAcceptError(req, err)
	l.callbackEnd(t)
}

func (l *Loop) onDialError(c *Conn, err error) {
	l.stats.DialErrors++
	t := l.callbackStart()
	c.handler.OnDialError(c.dialOptions, err)
	l.callbackEnd(t)
}

func (l *Loop) onOpen(c *Conn) {
	l.stats.Opened++
	t := l.callbackStart()
	c.handler.OnOpen(c)
	l.callbackEnd(t)
}

func (l *Loop) onMessage(c *Conn, b *Buffer) {
	l.stats.Messages++
	l.stats.MessageBytes += uint64(b.length)
	t := l.callbackStart()
	c.handler.OnMessage(c, Message{conn: c, buffer: b, serial: b.serial})
	l.callbackEnd(t)
}

func (l *Loop) onLongMessage(c *Conn, h LongHandler) {
	t := l.callbackStart()
	h.OnLongMessage(c, (*LongMessage)(c.long))
	l.callbackEnd(t)
}

// onPart calls OnPart. Only a LongHandler can have called LongMessage.Parts.
func (l *Loop) onPart(c *Conn, p Part) {
	t := l.callbackStart()
	c.handler.(LongHandler).OnPart(c, p)
	l.callbackEnd(t)
}

func (l *Loop) onCompletion(c *Conn, op Op, err error) {
	t := l.callbackStart()
	c.handler.OnCompletion(c, op, err)
	l.callbackEnd(t)
}

func (l *Loop) onWritable(c *Conn) {
	t := l.callbackStart()
	c.handler.OnWritable(c)
	l.callbackEnd(t)
}

func (l *Loop) onStop(c *Conn, h StopHandler) {
	t := l.callbackStart()
	h.OnStop(c)
	l.callbackEnd(t)
}

func (l *Loop) onClose(c *Conn, err error) {
	l.stats.Closed++
	t := l.callbackStart()
	c.handler.OnClose(c, err)
	l.callbackEnd(t)
}
