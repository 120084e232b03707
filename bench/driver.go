package main

import (
	"errors"
	"fmt"
	"time"
)

// errBlocked is a courier's: there is no room now, writable will be called.
var errBlocked = errors.New("no room to send")

// A transport is what a driver needs of a library with callbacks. All but post
// are called on the loop.
type transport interface {
	post(f func()) error             // call f on the loop, from anywhere
	after(d time.Duration, f func()) // call f on the loop later
	dial(s *session) error           // session.opened or driver.fail follows
	hangUp(s *session)               // session.closed follows
	Close() error                    // from outside of the loop
}

// A driver makes the connections of a client whose library calls back, and drives
// them. All but its methods open, drive and Close belong to the one loop.
type driver struct {
	spec     *spec
	lib      transport
	clock    stopwatch
	sessions []*session

	tally    *tally
	begin    time.Duration
	deadline time.Duration
	due      time.Duration // idle: when the last message was
	over     bool          // no more is to be sent
	live     int           // sessions that are not done yet
	err      error         // the first
	done     chan error    // one value for each open and drive
}

func newDriver(s *spec) *driver {
	return &driver{spec: s, clock: newStopwatch(), tally: newTally(), done: make(chan error, 1)}
}

// open makes the connections, one after the other.
func (d *driver) open() error {
	if d.spec.Workload == workConnect {
		d.sessions = append(d.sessions, newSession(d))
		return nil // drive does it
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
	if err := d.lib.dial(s); err != nil {
		d.fail(err)
	}
}

func (d *driver) drive(period time.Duration, t *tally) error {
	return d.run(func() {
		d.tally, d.over = t, false
		d.begin = d.clock.now()
		d.due, d.deadline = d.begin, d.begin+period
		d.start()
	})
}

func (d *driver) run(f func()) error {
	if err := d.lib.post(f); err != nil {
		return err
	}
	return <-d.done
}

func (d *driver) Close() error { return d.lib.Close() }

// start sets the sessions going that have a part in the workload.
func (d *driver) start() {
	active := d.sessions
	if d.spec.Workload != workConnsActive {
		active = active[:1]
	}
	d.live = len(active)
	for _, s := range active {
		switch d.spec.Workload {
		case workConnect:
			s.start = d.clock.now()
			d.dial(s)
		case workIdle:
			d.tick(s)
		default:
			s.pump()
		}
	}
}

// tick sends the message that is due, and waits for the next. A message that is
// still on its way puts off the others, which recordPaced makes up for.
func (d *driver) tick(s *session) {
	now := d.clock.now()
	if d.over = now >= d.deadline && d.tally.Msgs > 0; d.over {
		if s.sent == s.acked {
			s.rest() // else when the answer is there, for it counts
		}
		return
	}
	for d.due <= now {
		d.due += idleInterval
	}
	if s.sent == s.acked {
		s.send()
	}
	d.lib.after(d.due-now, func() { d.tick(s) })
}

// leave is called by each session when it is done.
func (d *driver) leave() {
	if d.live--; d.live == 0 {
		d.tally.Elapsed = d.clock.now() - d.begin
		d.finish()
	}
}

func (d *driver) fail(err error) {
	if d.err == nil {
		d.err = err
		d.over = true
		d.done <- err
	}
}

func (d *driver) finish() {
	if d.err == nil {
		d.done <- nil
	}
}

// lost is the failure of a connection that ended by itself.
func lost(err error) error { return fmt.Errorf("connection lost: %w", err) }
