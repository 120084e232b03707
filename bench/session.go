package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A courier carries the messages of one connection.
type courier interface {
	// carry sends message n, whose first eight bytes say so, or starts operation
	// n. It returns errBlocked when there is no room.
	carry(n uint64) error
}

// A session is one connection of a driver.
type session struct {
	driver *driver
	out    courier
	window uint64
	group  uint64 // of so many messages the last is answered

	sent, acked uint64
	start       time.Duration // of the message on its way, where that is timed
	resting     bool
}

func newSession(d *driver) *session {
	return &session{driver: d, window: uint64(d.spec.InFlight), group: uint64(d.spec.group()), resting: true}
}

// opened is called with the connection.
func (s *session) opened(out courier) {
	s.out = out
	if s.driver.spec.Workload == workConnect {
		s.resting, s.sent, s.acked = false, 0, 0
		s.send()
		return
	}
	s.driver.dialNext()
}

// pump sends what the window has room for.
func (s *session) pump() {
	s.resting = false
	for !s.driver.over && s.sent-s.acked < s.window && s.send() {
	}
}

// writable follows when there was no room.
func (s *session) writable() {
	if !s.resting && s.sent-s.acked < s.window {
		s.pump()
	}
}

// send sends one message, and reports whether there may be room for the next.
func (s *session) send() bool {
	if s.driver.spec.timed() && s.driver.spec.Workload != workConnect {
		s.start = s.driver.clock.now()
	}
	switch err := s.out.carry(s.sent + 1); {
	case err == nil:
		s.sent++
		return true
	case !errors.Is(err, errBlocked):
		s.driver.fail(err)
	}
	return false
}

// answered takes what the server returned: the last message of a group, cut to
// the size of an answer.
func (s *session) answered(answer []byte) {
	want := s.acked + s.group
	if len(answer) != s.driver.spec.answer() || number(answer) != want || want > s.sent {
		s.driver.fail(fmt.Errorf("the server did not return message %d: %d bytes", want, len(answer)))
		return
	}
	s.completed()
}

// completed counts a group of messages, or an operation.
func (s *session) completed() {
	d := s.driver
	now := d.clock.now()
	s.acked += s.group
	d.tally.Msgs += s.group
	if d.spec.Workload == workIdle {
		d.tally.recordPaced(now-s.start, idleInterval)
		if d.over {
			s.rest()
		}
		return
	}
	if d.spec.timed() {
		d.tally.record(now - s.start)
	}
	if now >= d.deadline {
		d.over = true
	}
	switch {
	case d.spec.Workload == workConnect:
		d.lib.hangUp(s)
	case d.over && s.sent-s.acked < s.group:
		s.rest()
	default:
		s.pump()
	}
}

// closed follows hangUp. For any other reason a connection must not close.
func (s *session) closed(err error) {
	d := s.driver
	switch {
	case d.spec.Workload != workConnect || err != nil:
		d.fail(lost(err))
	case d.over:
		s.rest()
	default:
		s.start = d.clock.now()
		d.dial(s)
	}
}

// rest ends the session's part of the workload.
func (s *session) rest() {
	if s.resting = true; s.driver.err == nil {
		s.driver.leave()
	}
}

// putNumber and number write and read which message it is.
func putNumber(message []byte, n uint64) { binary.LittleEndian.PutUint64(message, n) }

func number(message []byte) uint64 { return binary.LittleEndian.Uint64(message) }
