package reactor

import "time"

// All calls of the Handler are here, so that they are timed in one place.

// begin reads the clock if callbacks are to be timed.
func (l *Loop) begin() time.Duration {
	if l.cfg.SlowCallback == 0 {
		return 0
	}
	return l.clock.read()
}

func (l *Loop) finish(begin time.Duration) {
	if l.cfg.SlowCallback == 0 {
		return
	}
	l.clock.worked = true
	took := l.clock.read() - begin
	l.stats.LongestCallback = max(l.stats.LongestCallback, took)
	if took > l.cfg.SlowCallback {
		l.stats.SlowCallbacks++
	}
}

func (l *Loop) onTick() {
	t := l.begin()
	again := l.handler.OnTick(l)
	l.finish(t)
	if again > 0 {
		l.setTimer(&l.ticker, again)
	}
}

func (l *Loop) onConnectRequest(req *ConnRequest) {
	l.stats.Requests++
	t := l.begin()
	l.handler.OnConnectRequest(req)
	l.finish(t)
}

func (l *Loop) onAcceptError(req *ConnRequest, err error) {
	l.stats.AcceptErrors++
	t := l.begin()
	l.handler.OnAcceptError(req, err)
	l.finish(t)
}

func (l *Loop) onDialError(d *Dial, err error) {
	l.stats.DialErrors++
	t := l.begin()
	l.handler.OnDialError(d, err)
	l.finish(t)
}

func (l *Loop) onOpen(c *Conn) {
	l.stats.Opened++
	t := l.begin()
	l.handler.OnOpen(c)
	l.finish(t)
}

func (l *Loop) onMessage(c *Conn, b *Buffer) {
	l.stats.Messages++
	l.stats.MessageBytes += uint64(b.length)
	t := l.begin()
	l.handler.OnMessage(c, Message{conn: c, buffer: b})
	l.finish(t)
}

func (l *Loop) onCompletion(c *Conn, op Op, err error) {
	t := l.begin()
	l.handler.OnCompletion(c, op, err)
	l.finish(t)
}

func (l *Loop) onWritable(c *Conn) {
	t := l.begin()
	l.handler.OnWritable(c)
	l.finish(t)
}

func (l *Loop) onClose(c *Conn, err error) {
	l.stats.Closed++
	t := l.begin()
	l.handler.OnClose(c, err)
	l.finish(t)
}
