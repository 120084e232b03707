package reactor

import "time"

// This file has the calls of the Handler that are timed for Config.SlowCallback. Each
// method with the name of a Handler method calls that method and counts the call in
// Stats.

// callbackStart returns the time if callbacks are timed, and else 0.
func (l *Loop) callbackStart() time.Duration {
	if l.cfg.SlowCallback == 0 {
		return 0
	}
	return l.clock.read()
}

// callbackEnd counts the duration of a callback. begin is the result of callbackStart.
func (l *Loop) callbackEnd(begin time.Duration) {
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

// onTick calls OnTick, and sets the timer for the next call.
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
	l.handler.OnConnectRequest(req)
	l.callbackEnd(t)
}

func (l *Loop) onAcceptError(req *ConnRequest, err error) {
	l.stats.AcceptErrors++
	t := l.callbackStart()
	l.handler.OnAcceptError(req, err)
	l.callbackEnd(t)
}

func (l *Loop) onDialError(o *DialOptions, err error) {
	l.stats.DialErrors++
	t := l.callbackStart()
	l.handler.OnDialError(o, err)
	l.callbackEnd(t)
}

func (l *Loop) onOpen(c *Conn) {
	l.stats.Opened++
	t := l.callbackStart()
	l.handler.OnOpen(c)
	l.callbackEnd(t)
}

func (l *Loop) onMessage(c *Conn, b *Buffer) {
	l.stats.Messages++
	l.stats.MessageBytes += uint64(b.length)
	t := l.callbackStart()
	l.handler.OnMessage(c, Message{conn: c, buffer: b})
	l.callbackEnd(t)
}

func (l *Loop) onCompletion(c *Conn, op Op, err error) {
	t := l.callbackStart()
	l.handler.OnCompletion(c, op, err)
	l.callbackEnd(t)
}

func (l *Loop) onWritable(c *Conn) {
	t := l.callbackStart()
	l.handler.OnWritable(c)
	l.callbackEnd(t)
}

func (l *Loop) onClose(c *Conn, err error) {
	l.stats.Closed++
	t := l.callbackStart()
	l.handler.OnClose(c, err)
	l.callbackEnd(t)
}
