package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A sender sends the messages of one connection.
type sender interface {
	// send sends message n, or starts one-sided operation n. A message begins with its
	// number in eight bytes. The error is errBlocked if the queue is full.
	send(n uint64) error
}

// A session runs the workload on one connection.
type session struct {
	driver      *driver
	sender      sender
	maxInFlight uint64
	// Number of messages that share one answer.
	group uint64

	sent, acked uint64
	// Time at which the message in flight was sent. It is only valid if messages are timed.
	start   time.Duration
	stopped bool
}

func newSession(d *driver) *session {
	return &session{driver: d, maxInFlight: uint64(d.spec.InFlight), group: uint64(d.spec.group()), stopped: true}
}

// onOpen starts the session when its connection has opened.
func (s *session) onOpen(out sender) {
	s.sender = out
	if s.driver.spec.Workload == workConnect {
		s.stopped, s.sent, s.acked = false, 0, 0
		s.send()
		return
	}
	s.driver.dialNext()
}

// sendMore sends messages until maxInFlight are in flight.
func (s *session) sendMore() {
	s.stopped = false
	for !s.driver.stopping && s.sent-s.acked < s.maxInFlight && s.send() {
	}
}

// onWritable is called when the connection accepts messages again after errBlocked.
func (s *session) onWritable() {
	if !s.stopped && s.sent-s.acked < s.maxInFlight {
		s.sendMore()
	}
}

// send sends one message. It returns false if the connection does not accept the message
// now.
func (s *session) send() bool {
	if s.driver.spec.timed() && s.driver.spec.Workload != workConnect {
		s.start = s.driver.clock.now()
	}
	switch err := s.sender.send(s.sent + 1); {
	case err == nil:
		s.sent++
		return true
	case !errors.Is(err, errBlocked):
		s.driver.fail(err)
	}
	return false
}

// onAnswer checks the length and the number of an answer. The answer must have the
// number of the last message in its group.
func (s *session) onAnswer(answer []byte) {
	want := s.acked + s.group
	if len(answer) != s.driver.spec.answer() || number(answer) != want || want > s.sent {
		s.driver.fail(fmt.Errorf("the server did not return message %d: %d bytes", want, len(answer)))
		return
	}
	s.onComplete()
}

// onComplete is called when an answer has arrived or a one-sided operation has
// completed. It sends further messages or stops the session.
func (s *session) onComplete() {
	d := s.driver
	now := d.clock.now()
	s.acked += s.group
	d.tally.Msgs += s.group
	if d.spec.Workload == workIdle {
		d.tally.Times.RecordPaced(now-s.start, idleInterval)
		if d.stopping {
			s.stop()
		}
		return
	}
	if d.spec.timed() {
		d.tally.Times.Record(now - s.start)
	}
	if now >= d.deadline {
		d.stopping = true
	}
	switch {
	case d.spec.Workload == workConnect:
		d.transport.closeConn(s)
	case d.stopping && s.sent-s.acked < s.group:
		s.stop()
	default:
		s.sendMore()
	}
}

// onClose is called when the connection has closed. In workConnect that is expected, and
// the session dials again or stops. In other workloads it is an error.
func (s *session) onClose(err error) {
	d := s.driver
	switch {
	case d.spec.Workload != workConnect || err != nil:
		d.fail(connectionLost(err))
	case d.stopping:
		s.stop()
	default:
		s.start = d.clock.now()
		d.dial(s)
	}
}

// stop ends the session in this phase.
func (s *session) stop() {
	if s.stopped = true; s.driver.err == nil {
		s.driver.sessionStopped()
	}
}

// putNumber writes the number of a message to its first bytes.
func putNumber(message []byte, n uint64) { binary.LittleEndian.PutUint64(message, n) }

func number(message []byte) uint64 { return binary.LittleEndian.Uint64(message) }
