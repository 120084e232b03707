package main

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A connection fails if no echo arrives for this time, but echoes are outstanding.
// Arbitrary.
const stallTimeout = 10 * time.Second

// A loopResult has the results of all sessions of one loop. The loop owns it.
type loopResult struct {
	sessions []*session
	// Times of the round trips in nanoseconds.
	times    *hdrhistogram.Histogram
	streamed int // number of echoes in the phase stream
	lost     int // number of messages without an echo
	damaged  int // number of echoes that differ from their message
	// number of sessions that could not open, or that closed too early
	failed      int
	cause       error  // error of the first failed session
	privateData []byte // private data that the first session received

	// number of echoes so far; the goroutine of the progress bar reads it
	progress atomic.Int64
}

func newLoopResult() *loopResult {
	return &loopResult{times: hdrhistogram.New(1, int64(time.Minute), 3)}
}

// finish ends the phase early for all sessions of the loop. Each session still waits for
// its outstanding echoes.
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
	waiting // the session has finished the phase, and other sessions have not
)

// A session is one connection of the client. The loop of its loopResult owns it.
type session struct {
	result *loopResult
	// the connection, or nil if it is not open
	conn  *reactor.Conn
	phase phase
	// channel that receives a value at the end of each phase
	done chan<- struct{}

	privateData []byte // private data expected from the server
	share       int    // number of messages of this session in the ping-pong
	maxInFlight int    // largest number of messages in flight
	// number of messages that remain to be sent in this phase
	left      int
	sent      int // number of messages sent in all phases
	echoed    int // number of echoes received in all phases
	out, want []byte
	start     time.Time // start of the current round trip
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
	// Some devices append zero bytes to private data (rdma_accept(3)).
	hello := bytes.TrimRight(c.PeerPrivateData(), "\x00")
	if !bytes.Equal(hello, s.privateData) {
		s.result.damaged++
	}
	if s.result.privateData == nil {
		s.result.privateData = hello
	}
	s.finishPhase()
}

// begin starts a phase. The parameter left is the number of messages to send. At most
// maxInFlight of them are in flight at a time.
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
			return // OnWritable will call sendMore.
		}
		if err != nil {
			s.conn.Abort(err) // the connection is failing, and OnClose follows
			return
		}
		s.sent++
		s.left--
	}
}

// checkEcho compares an echo with the oldest outstanding message.
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

// onClose ends the session. Any error except ErrShutdown counts as a failure.
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

// finishPhase checks whether the phase is complete. If so, it sends a value to the
// channel done, and the session waits for the next phase.
func (s *session) finishPhase() {
	over := s.phase == opening || s.left == 0 && s.echoed == s.sent
	if !over || s.phase == waiting {
		return
	}
	s.phase = waiting
	if s.conn != nil {
		s.conn.SetIdleTimeout(0)
	}
	// The channel has room for one value of each session, so this never blocks.
	s.done <- struct{}{}
}
