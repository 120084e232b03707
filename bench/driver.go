package main

import (
	"errors"
	"fmt"
	"time"
)

// errBlocked is the error of a sender that cannot send now. onWritable follows.
var errBlocked = errors.New("the send queue is full")

// A transport is a client library with callbacks, as a driver uses it. All methods
// except post and Close are called on the loop.
type transport interface {
	// post calls f on the loop. Any goroutine may call post.
	post(f func()) error
	// after calls f on the loop when d has passed.
	after(d time.Duration, f func())
	// dial opens a connection for a session. session.onOpen or driver.fail follows.
	dial(s *session) error
	// closeConn closes the connection of a session. session.onClose follows.
	closeConn(s *session)
	// Close releases the library's resources. It is not called on the loop.
	Close() error
}

// A driver runs the workload of a client whose library has callbacks. It opens the
// connections. All fields and methods belong to the one loop, except the methods open,
// drive and Close.
type driver struct {
	spec      *spec
	transport transport
	clock     stopwatch
	sessions  []*session

	tally          *tally
	begin          time.Duration
	deadline       time.Duration
	nextDue        time.Duration // workIdle: time at which the next message is due.
	stopping       bool          // No further message may be sent.
	activeSessions int           // Sessions that have not stopped.
	err            error         // The first error.
	done           chan error    // Receives the result of each open and drive.
}

func newDriver(s *spec) *driver {
	return &driver{spec: s, clock: newStopwatch(), tally: newTally(), done: make(chan error, 1)}
}

// open opens the connections one after another.
func (d *driver) open() error {
	if d.spec.Workload == workConnect {
		d.sessions = append(d.sessions, newSession(d))
		return nil // drive opens the connections.
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

// sendPaced sends the message that is due, and waits for the next. If a message is
// still in flight, none is sent until its answer has arrived; recordPaced corrects the
// times for that.
func (d *driver) sendPaced(s *session) {
	now := d.clock.now()
	if d.stopping = now >= d.deadline && d.tally.Msgs > 0; d.stopping {
		if s.sent == s.acked {
			s.stop() // Else it stops when the answer has arrived, which still counts.
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

// sessionStopped is called by each session when it stops.
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

// connectionLost returns the error of a connection that ended by itself.
func connectionLost(err error) error { return fmt.Errorf("connection lost: %w", err) }
