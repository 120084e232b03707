package main

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// stallTime is how long a connection may be silent when echoes are due.
const stallTime = 10 * time.Second

// A lane is what one loop's sessions measure. It belongs to the loop.
type lane struct {
	sessions []*session
	times    *hdrhistogram.Histogram // round trips of the ping-pong, in ns
	streamed int                     // echoes of the stream
	lost     int                     // messages without an echo
	damaged  int                     // echoes unlike their message
	failed   int                     // sessions that did not open, or broke
	cause    error                   // of the first that failed
	hello    []byte                  // private data that came back to the first

	progress atomic.Int64 // a copy of echoes of all, for the other goroutine
}

func newLane() *lane {
	return &lane{times: hdrhistogram.New(1, int64(time.Minute), 3)}
}

// finish lets the sessions end their phase as soon as what they sent is back.
func (l *lane) finish() {
	for _, s := range l.sessions {
		s.left = 0
		s.report()
	}
}

func (l *lane) publish() { l.progress.Store(l.times.TotalCount() + int64(l.streamed)) }

// phase is what a session does.
type phase uint8

const (
	opening phase = iota
	pingPong
	stream
	resting // until the others are done too
)

// A session is one connection of the client. It belongs to the loop of its lane.
type session struct {
	lane  *lane
	conn  *reactor.Conn // nil when it is not open
	phase phase
	done  chan<- struct{} // gets one value at the end of each phase

	hello     []byte // private data to be returned
	share     int    // messages of the ping-pong
	window    int    // messages that may be in flight
	left      int    // messages still to be sent
	sent      int    // messages sent, since the beginning
	seen      int    // echoes, since the beginning
	out, want []byte
	start     time.Time // of the round trip under way
}

func newSession(opts *options, l *lane, done chan<- struct{}) *session {
	s := &session{
		lane:  l,
		done:  done,
		hello: []byte(opts.privateData),
		out:   make([]byte, opts.size),
		want:  make([]byte, opts.size),
	}
	l.sessions = append(l.sessions, s)
	return s
}

func (s *session) open(c *reactor.Conn) {
	s.conn = c
	// Some devices pad private data with zeros: rdma_accept(3).
	hello := bytes.TrimRight(c.PeerPrivateData(), "\x00")
	if !bytes.Equal(hello, s.hello) {
		s.lane.damaged++
	}
	if s.lane.hello == nil {
		s.lane.hello = hello
	}
	s.report()
}

// begin starts a phase in which left messages are sent, window at a time.
func (s *session) begin(p phase, window, left int) {
	s.phase, s.window, s.left = p, window, left
	if s.conn == nil {
		s.left = 0
	} else {
		s.conn.SetIdleTimeout(stallTime)
	}
	s.pump()
	s.report()
}

// pump sends what the window has room for.
func (s *session) pump() {
	for s.left > 0 && s.sent-s.seen < s.window {
		fill(s.out, uint64(s.sent))
		if s.phase == pingPong {
			s.start = time.Now()
		}
		err := s.conn.Send(s.out)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return // OnWritable calls again
		}
		if err != nil {
			s.conn.Abort(err) // OnClose follows
			return
		}
		s.sent++
		s.left--
	}
}

// echo takes the answer to the oldest message: they come in order.
func (s *session) echo(got []byte) {
	switch s.phase {
	case pingPong:
		s.lane.times.RecordValue(min(int64(time.Since(s.start)), s.lane.times.HighestTrackableValue()))
	case stream:
		s.lane.streamed++
	}
	fill(s.want, uint64(s.seen))
	if !bytes.Equal(got, s.want) || s.seen == s.sent {
		s.lane.damaged++
	}
	s.seen = min(s.seen+1, s.sent)
	s.pump()
	s.report()
}

// close ends the session; err is nil when that was ours to do, and ErrShutdown
// when it was so before the session had opened.
func (s *session) close(err error) {
	if err != nil && !errors.Is(err, reactor.ErrShutdown) {
		s.lane.failed++
		if s.lane.cause == nil {
			s.lane.cause = err
		}
	}
	s.lane.lost += s.sent - s.seen
	s.conn, s.left, s.seen = nil, 0, s.sent
	s.report()
}

// report tells, once in each phase, that the session is done with it.
func (s *session) report() {
	over := s.phase == opening || s.left == 0 && s.seen == s.sent
	if !over || s.phase == resting {
		return
	}
	s.phase = resting
	if s.conn != nil {
		s.conn.SetIdleTimeout(0)
	}
	s.done <- struct{}{} // has room for every session
}
