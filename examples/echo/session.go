package main

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// stallTimeout is the maximum time without an echo while echoes are outstanding.
// Arbitrary: far longer than any round trip.
const stallTimeout = 10 * time.Second

// A loopResult has the results of all sessions of one loop. It belongs to that loop.
type loopResult struct {
	sessions []*session
	// Times of the round trips in the ping-pong, in nanoseconds.
	times    *hdrhistogram.Histogram
	streamed int // Number of echoes in the stream.
	lost     int // Number of messages that were sent and have no echo.
	damaged  int // Number of echoes that differ from their message.
	// Number of sessions that did not open, or that closed too early.
	failed      int
	cause       error  // Error of the first failed session.
	privateData []byte // Private data that the server returned to the first session.

	// Number of echoes so far. The goroutine of the progress bar reads it.
	progress atomic.Int64
}

func newLoopResult() *loopResult {
	return &loopResult{times: hdrhistogram.New(1, int64(time.Minute), 3)}
}

// finish ends the phase early for all sessions of the loop. The sessions send no further
// messages. Each session finishes the phase when its outstanding echoes have arrived.
func (r *loopResult) finish() {
	for _, s := range r.sessions {
		s.left = 0
		s.finishPhase()
	}
}

func (r *loopResult) publish() { r.progress.Store(r.times.TotalCount() + int64(r.streamed)) }

// A phase says what a session does at present.
type phase uint8

const (
	opening phase = iota
	pingPong
	stream
	waiting // The session has finished a phase and waits until the other sessions have finished it.
)

// A session is one connection of the client. It belongs to the loop of its loopResult.
type session struct {
	result *loopResult
	// Connection of the session. Nil if the connection is not open.
	conn  *reactor.Conn
	phase phase
	// Receives one value from the session at the end of each phase.
	done chan<- struct{}

	privateData []byte // Private data that the server is expected to return.
	share       int    // Number of messages that this session sends in the ping-pong.
	maxInFlight int    // Maximum number of messages in flight.
	// Number of messages that the session has not sent yet in this phase.
	left      int
	sent      int // Number of messages sent in all phases.
	echoed    int // Number of echoes received in all phases.
	out, want []byte
	start     time.Time // Start time of the current round trip.
}

func newSession(opts *options, result *loopResult, done chan<- struct{}) *session {
	s := &session{
		result:      result,
		done:        done,
		privateData: []byte(opts.privateData),
		out:         make([]byte, opts.size),
		want:        make([]byte, opts.size),
	}
	result.sessions = append(result.sessions, s)
	return s
}

func (s *session) onOpen(c *reactor.Conn) {
	s.conn = c
	// Some devices append zero bytes to private data (rdma_accept(3)). They are removed.
	hello := bytes.TrimRight(c.PeerPrivateData(), "\x00")
	if !bytes.Equal(hello, s.privateData) {
		s.result.damaged++
	}
	if s.result.privateData == nil {
		s.result.privateData = hello
	}
	s.finishPhase()
}

// begin starts a phase in which the session sends messages. The parameter left is the
// number of messages that the session sends in this phase. At most maxInFlight of them
// are in flight at a time.
func (s *session) begin(p phase, maxInFlight, left int) {
	s.phase, s.maxInFlight, s.left = p, maxInFlight, left
	if s.conn == nil {
		s.left = 0
	} else {
		s.conn.SetIdleTimeout(stallTimeout)
	}
	s.sendMore()
	s.finishPhase()
}

// sendMore sends messages until maxInFlight are in flight.
func (s *session) sendMore() {
	for s.left > 0 && s.sent-s.echoed < s.maxInFlight {
		fill(s.out, uint64(s.sent))
		if s.phase == pingPong {
			s.start = time.Now()
		}
		err := s.conn.Send(s.out)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // The send queue is full. OnWritable calls sendMore again.
		}
		if err != nil {
			s.conn.Abort(err) // The connection is failing. OnClose follows.
			return
		}
		s.sent++
		s.left--
	}
}

// checkEcho compares an echo with the oldest outstanding message. Echoes arrive in
// order.
func (s *session) checkEcho(got []byte) {
	switch s.phase {
	case pingPong:
		s.result.times.RecordValue(min(int64(time.Since(s.start)), s.result.times.HighestTrackableValue()))
	case stream:
		s.result.streamed++
	}
	fill(s.want, uint64(s.echoed))
	if !bytes.Equal(got, s.want) || s.echoed == s.sent {
		s.result.damaged++
	}
	s.echoed = min(s.echoed+1, s.sent)
	s.sendMore()
	s.finishPhase()
}

// onClose ends the session when its connection has closed. The parameter err is nil if
// this side has closed an open connection. It is ErrShutdown if this side has stopped an
// attempt to connect. Any other error means that the session has failed.
func (s *session) onClose(err error) {
	if err != nil && !errors.Is(err, reactor.ErrShutdown) {
		s.result.failed++
		if s.result.cause == nil {
			s.result.cause = err
		}
	}
	s.result.lost += s.sent - s.echoed
	s.conn, s.left, s.echoed = nil, 0, s.sent
	s.finishPhase()
}

// finishPhase is called when the session may have completed its phase. If the phase is
// complete, finishPhase reports this, and the session enters the phase "waiting".
// Further calls do not report it again.
func (s *session) finishPhase() {
	over := s.phase == opening || s.left == 0 && s.echoed == s.sent
	if !over || s.phase == waiting {
		return
	}
	s.phase = waiting
	if s.conn != nil {
		s.conn.SetIdleTimeout(0)
	}
	// Sending never blocks, because the channel has room for one value of each session.
	s.done <- struct{}{}
}
