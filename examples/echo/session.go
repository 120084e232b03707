package main

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// stallTimeout is how long no echo may arrive while echoes are outstanding. Arbitrary:
// far longer than any round trip.
const stallTimeout = 10 * time.Second

// A loopResult is the results of the sessions of one loop. It belongs to the loop.
type loopResult struct {
	sessions    []*session
	times       *hdrhistogram.Histogram // Round trips of the ping-pong, in nanoseconds.
	streamed    int                     // Echoes of the stream.
	lost        int                     // Messages without an echo.
	damaged     int                     // Echoes that differ from their message.
	failed      int                     // Sessions that did not open, or that ended early.
	cause       error                   // Error of the first failed session.
	privateData []byte                  // Private data that the server returned to the first session.

	progress atomic.Int64 // Number of echoes, for the progress bar's goroutine.
}

func newLoopResult() *loopResult {
	return &loopResult{times: hdrhistogram.New(1, int64(time.Minute), 3)}
}

// finish makes the sessions end their phase as soon as their outstanding echoes have
// arrived.
func (r *loopResult) finish() {
	for _, s := range r.sessions {
		s.left = 0
		s.finishPhase()
	}
}

func (r *loopResult) publish() { r.progress.Store(r.times.TotalCount() + int64(r.streamed)) }

// A phase is what a session does.
type phase uint8

const (
	opening phase = iota
	pingPong
	stream
	waiting // The session waits until the other sessions have finished the phase.
)

// A session is one connection of the client. It belongs to the loop of its loopResult.
type session struct {
	result *loopResult
	conn   *reactor.Conn // Nil if it is not open.
	phase  phase
	done   chan<- struct{} // Receives one value at the end of each phase.

	privateData []byte // Private data that the server must return.
	share       int    // Messages of the ping-pong.
	maxInFlight int    // Messages that may be in flight.
	left        int    // Messages left to send in this phase.
	sent        int    // Messages sent, in all phases.
	echoed      int    // Echoes received, in all phases.
	out, want   []byte
	start       time.Time // Start of the current round trip.
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
	// Some devices pad private data with zeros: rdma_accept(3).
	hello := bytes.TrimRight(c.PeerPrivateData(), "\x00")
	if !bytes.Equal(hello, s.privateData) {
		s.result.damaged++
	}
	if s.result.privateData == nil {
		s.result.privateData = hello
	}
	s.finishPhase()
}

// begin starts a phase, in which left messages are sent with at most maxInFlight in
// flight.
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
			return // OnWritable calls sendMore again.
		}
		if err != nil {
			s.conn.Abort(err) // OnClose follows.
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

// onClose ends the session. err is nil if this side closed the connection, and
// ErrShutdown if it did so before the session had opened.
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

// finishPhase reports the end of the phase, once, when the session is done with it.
func (s *session) finishPhase() {
	over := s.phase == opening || s.left == 0 && s.echoed == s.sent
	if !over || s.phase == waiting {
		return
	}
	s.phase = waiting
	if s.conn != nil {
		s.conn.SetIdleTimeout(0)
	}
	s.done <- struct{}{} // The channel has capacity for every session.
}
