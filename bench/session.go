package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A sender sends the messages of one connection.
type sender interface {
	// send sends message n, or starts one-sided operation n. Message n begins with n in
	// eight bytes. The error may be errBlocked.
	send(n uint64) error
}

// A session runs the workload on one connection.
type session struct {
	driver      *driver
	sender      sender
	maxInFlight uint64
	// Number of messages for which the server sends one answer.
	group uint64

	sent, acked uint64
	// Time at which the message in flight was sent, if single messages are timed.
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

// send sends one message. It returns false if the connection accepts no more messages
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

// onAnswer checks the length and the number of an answer. The number must be that of the
// last message of a group.
func (s *session) onAnswer(answer []byte) {
	want := s.acked + s.group
	if len(answer) != s.driver.spec.answer() || number(answer) != want || want > s.sent {
		s.driver.fail(fmt.Errorf("the server did not return message %d: %d bytes", want, len(answer)))
		return
	}
	s.onComplete()
}

// onComplete is called after the answer to a group or the completion of a one-sided
// operation. It sends further messages or stops the session.
func (s *session) onComplete() {
	d := s.driver
	now := d.clock.now()
	s.acked += s.group
	d.tally.Msgs += s.group
	if d.spec.Workload == workIdle {
		d.tally.recordPaced(now-s.start, idleInterval)
		if d.stopping {
			s.stop()
		}
		return
	}
	if d.spec.timed() {
		d.tally.record(now - s.start)
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

// onClose is called when the connection has closed. In workConnect it dials the next
// connection or stops the session. In other workloads the close is an error.
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

// stop ends the session's part of the workload.
func (s *session) stop() {
	if s.stopped = true; s.driver.err == nil {
		s.driver.sessionStopped()
	}
}

// putNumber writes the number of a message into the message.
func putNumber(message []byte, n uint64) { binary.LittleEndian.PutUint64(message, n) }

func number(message []byte) uint64 { return binary.LittleEndian.Uint64(message) }
