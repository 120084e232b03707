package reactor

import (
	"fmt"
	"time"
)

// A callback is the call of the application that is being measured.
type callback struct {
	name  string        // method of Handler, or the method that has got the function
	begin time.Duration // time by the loop's clock
}

// nameOfTurnFunc is the name of a call of the function of SetTurnFunc.
const nameOfTurnFunc = "SetTurnFunc"

// callbackStart is called before the callback with the given name, for the connection c or
// nil and with the given error or nil. A simulated host records the callback.
func (l *Loop) callbackStart(name string, c *Conn, err error) {
	l.calling = c
	if l.observed {
		l.observe(name, c, err)
	}
}

// callbackEnd is called after a callback, with or without functionStart.
func (l *Loop) callbackEnd() {
	if l.observed {
		l.endMeasure()
	}
	l.calling = nil
}

// functionStart is called before a function that the application has passed to the method with
// the given name. A simulated host does not record it.
func (l *Loop) functionStart(name string) {
	if l.observed {
		l.measure(name)
	}
}

func (l *Loop) observe(name string, c *Conn, err error) {
	if sim := l.engine.sim; sim != nil {
		sim.Record(l.index, name, describe(c, err))
	}
	l.measure(name)
}

// measuresAll reports whether every callback is measured.
func (l *Loop) measuresAll() bool { return l.cfg.Limits.SlowCallback > 0 }

// measuring reports whether the callbacks are measured now.
func (l *Loop) measuring() bool { return l.measuresAll() || l.latency != nil && l.latency.measuring }

// measure begins to measure a callback.
func (l *Loop) measure(name string) {
	if !l.measuring() {
		return
	}
	if name != nameOfTurnFunc { // That has no work most of the time.
		l.clock.worked = true
	}
	l.callback = callback{name, l.clock.read()}
	if r := l.latency; r != nil && r.measuring {
		r.callbackBegins(l.callback.begin, l.currentMessage)
	}
}

// endMeasure ends the measurement of a callback.
func (l *Loop) endMeasure() {
	if !l.measuring() {
		return
	}
	l.clock.worked = true
	took := l.clock.read() - l.callback.begin
	if r := l.latency; r != nil && r.measuring {
		r.callback.add(took)
	}
	if l.measuresAll() {
		l.stats.LongestCallback = max(l.stats.LongestCallback, took)
		if took > l.cfg.Limits.SlowCallback {
			l.stats.SlowCallbacks++
			l.warnOfSlowCallback(took)
		}
	}
}

// warnOfSlowCallback logs a warning. Each callback has a message of its own, so that many slow
// calls of one do not hide those of another.
func (l *Loop) warnOfSlowCallback(took time.Duration) {
	args := []any{"took", took, "loop", l.name}
	if c := l.calling; c != nil {
		args = append(args, "remote", c.info.remote)
	}
	l.engine.log.Warn("reactor: slow callback: "+l.callback.name, args...)
}

// measured returns a function that calls and measures fn, which the application has passed to
// the method with the given name. If the loop measures no callbacks, measured returns fn. Any
// goroutine may call it.
func (l *Loop) measured(name string, fn func()) func() {
	if !l.measuresAll() && l.latency == nil {
		return fn
	}
	return func() {
		l.functionStart(name)
		fn()
		l.callbackEnd()
	}
}

// describe returns what a record of a callback says.
func describe(c *Conn, err error) (about string) {
	if c != nil {
		about = fmt.Sprintf("%v > %v", c.info.local, c.info.remote)
	}
	if err != nil {
		about += ": " + err.Error()
	}
	return about
}
