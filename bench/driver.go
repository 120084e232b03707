package main

import (
	"errors"
	"fmt"
	"time"
)

// errBlocked means that a connection can not accept a message now. When the connection
// accepts messages again, the transport calls session.onWritable.
var errBlocked = errors.New("the send queue is full")

// A transport is the interface between the driver and a client library with callbacks.
// Only post() and Close may be called outside the goroutine of the event loop.
type transport interface {
	// post calls f in the event loop. Any goroutine may call post().
	post(f func()) error
	// after calls f in the event loop when the duration d has passed.
	after(d time.Duration, f func())
	// dial opens a connection. The transport later calls session.onOpen or driver.fail.
	dial(s *session) error
	// closeConn closes a connection. The transport later calls session.onClose.
	closeConn(s *session)
	// Close releases the resources of the library. The event loop must not call it.
	Close() error
}

// A driver runs the workload of a client whose library has callbacks. Each call of
// drive() is one phase: the warm-up or the measurement.
//
// A driver belongs to the goroutine of the event loop. Other goroutines call only open(),
// drive() and Close.
type driver struct {
	spec      *spec
	transport transport
	clock     stopwatch
	sessions  []*session

	tally    *tally
	begin    time.Duration
	deadline time.Duration
	// Time at which workIdle sends its next message.
	nextDue time.Duration
	// True if the sessions must send no more messages in this phase.
	stopping bool
	// Number of sessions that have not stopped in this phase.
	activeSessions int
	err            error // The first error of any session or of the transport.
	// Channel that receives the error or nil when open() or drive() has ended.
	done chan error
}

func newDriver(s *spec) *driver {
	return &driver{spec: s, clock: newStopwatch(), tally: newTally(), done: make(chan error, 1)}
}

// open opens the connections one after another.
func (d *driver) open() error {
	if d.spec.Workload == workConnect {
		d.sessions = append(d.sessions, newSession(d))
		return nil // drive() opens the connections of this workload.
	}
	return d.run(func() { d.dialNext() })
}

func (d *driver) dialNext() {
	if len(d.sessions) == d.spec.Connections {
		d.finish()
		return
	}
	s := newSession(d)
	d.sessions = append(d.sessions, s)
	d.dial(s)
}

func (d *driver) dial(s *session) {
	if err := d.transport.dial(s); err != nil {
		d.fail(err)
	}
}

func (d *driver) drive(period time.Duration, t *tally) error {
	return d.run(func() {
		d.tally, d.stopping = t, false
		d.begin = d.clock.now()
		d.nextDue, d.deadline = d.begin, d.begin+period
		d.start()
	})
}

func (d *driver) run(f func()) error {
	if err := d.transport.post(f); err != nil {
		return err
	}
	return <-d.done
}

func (d *driver) Close() error { return d.transport.Close() }

// start starts the sessions that take part in the workload.
func (d *driver) start() {
	active := d.sessions
	if d.spec.Workload != workConnsActive {
		active = active[:1]
	}
	d.activeSessions = len(active)
	for _, s := range active {
		switch d.spec.Workload {
		case workConnect:
			s.start = d.clock.now()
			d.dial(s)
		case workIdle:
			d.sendPaced(s)
		default:
			s.sendMore()
		}
	}
}

// sendPaced sends a message of workIdle in every idleInterval. While an answer is
// missing, sendPaced sends nothing. When the answer arrives, RecordPaced also adds the
// times that the messages not sent would have had.
func (d *driver) sendPaced(s *session) {
	now := d.clock.now()
	if d.stopping = now >= d.deadline && d.tally.Msgs > 0; d.stopping {
		if s.sent == s.acked {
			// No answer is missing, so the session can stop now. Otherwise onComplete
			// stops the session when the answer arrives.
			s.stop()
		}
		return
	}
	for d.nextDue <= now {
		d.nextDue += idleInterval
	}
	if s.sent == s.acked {
		s.send()
	}
	d.transport.after(d.nextDue-now, func() { d.sendPaced(s) })
}

// sessionStopped is called when a session stops. The last call ends the phase.
func (d *driver) sessionStopped() {
	if d.activeSessions--; d.activeSessions == 0 {
		d.tally.Elapsed = d.clock.now() - d.begin
		d.finish()
	}
}

func (d *driver) fail(err error) {
	if d.err == nil {
		d.err = err
		d.stopping = true
		d.done <- err
	}
}

func (d *driver) finish() {
	if d.err == nil {
		d.done <- nil
	}
}

// connectionLost is the error for a connection that the driver has not closed.
func connectionLost(err error) error { return fmt.Errorf("connection lost: %w", err) }
