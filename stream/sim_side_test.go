//go:build linux

package stream_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A simEnd says what a side does after it has written its bytes.
type simEnd int

const (
	simWaits      simEnd = iota // closes when the peer has ended its direction
	simClosesHalf               // calls CloseWrite
	simCloses                   // calls Close
	simIdles                    // does nothing
	simEnds                     // number of values
)

var errSimAborts = errors.New("the side aborts")

// A simSide is one side of a stream of a simulation: what its application does, and what
// it has learned.
type simSide struct {
	sim     *simulation
	process *simProcess
	peer    *simSide
	name    string
	rng     *rand.Rand
	out     []byte        // bytes to write
	piece   int           // largest number of bytes of one call of Write
	end     simEnd        // what it does after them
	aborts  int           // number of bytes after which it calls Abort instead; negative means never
	pause   time.Duration // longest time for which it does not write or read; zero means no pauses

	asked      bool           // the accepting side has got the request
	refused    bool           // OnDialError or OnAcceptError was called
	stream     *stream.Stream // nil until OnOpen
	written    int            // bytes of out that Write has taken
	read       int            // bytes of peer.out that were read
	blocked    bool           // Write has returned ErrWouldBlock, and OnWritable follows
	writeTimer bool           // a timer calls write
	readTimer  bool           // a timer calls readAll

	halfClosed bool // CloseWrite was called
	closed     bool // Close was called
	aborted    bool // Abort was called
	peerEnded  bool // OnEnd was called
	over       bool // OnClose was called
	err        error
}

// ended reports whether the side has ended its writing direction.
func (s *simSide) ended() bool { return s.halfClosed || s.hasClosed() }

// hasClosed reports whether the side has closed the stream, or its engine has.
func (s *simSide) hasClosed() bool { return s.closed || s.process.ends }

// settled reports whether nothing more happens at the side unless the test ends the stream.
func (s *simSide) settled() bool {
	switch {
	case s.process.killed, s.refused, s.over:
		return true
	case s.stream == nil:
		return s.peer.process.killed || s.peer.refused
	}
	return s.written == len(s.out) && s.read == s.peer.written && s.peer.settledWriting()
}

func (s *simSide) settledWriting() bool {
	return s.written == len(s.out) && s.end != simCloses && s.aborts < 0
}

// write writes pieces of random sizes.
func (s *simSide) write() {
	for !s.blocked && !s.writeTimer && !s.aborted && !s.ended() {
		left := s.out[s.written:]
		switch {
		case s.aborts >= 0 && s.written >= s.aborts:
			s.abort()
			return
		case len(left) == 0:
			s.finish()
			return
		case s.pause > 0 && s.rng.IntN(8) == 0:
			s.writeTimer = true
			s.after(func() { s.writeTimer = false; s.write() })
			return
		}
		size := min(len(left), 1+s.rng.IntN(s.piece))
		n, err := s.stream.Write(left[:size])
		s.written += n
		if n < size {
			s.writeFailed(err)
			return
		}
		s.sim.require.NoError(err, s.name)
	}
}

func (s *simSide) writeFailed(err error) {
	switch {
	case errors.Is(err, stream.ErrWouldBlock):
		s.blocked = true
	case errors.Is(err, stream.ErrPeerClosed):
		s.sim.require.True(s.peer.hasClosed(), s.name)
		s.blocked = true // OnClose follows.
	default:
		s.sim.require.ErrorIs(err, stream.ErrClosed, s.name)
		s.blocked = true // OnClose follows.
	}
}

// finish does what the side does after it has written its bytes.
func (s *simSide) finish() {
	switch {
	case s.end == simClosesHalf:
		s.halfClosed = s.did("CloseWrite", s.stream.CloseWrite())
	case s.end == simCloses, s.end == simWaits && s.peerEnded && s.read == s.peer.written:
		s.close()
	}
}

func (s *simSide) close() { s.closed = s.did("Close", s.stream.Close()) || s.closed }

func (s *simSide) abort() { s.aborted = s.did("Abort", s.stream.Abort(errSimAborts)) || s.aborted }

// did records the result of a method in the log. It reports whether the method has succeeded.
func (s *simSide) did(method string, err error) (ok bool) {
	s.sim.w.Logf("%s: %s: %v; written %d, read %d", s.name, method, err, s.written, s.read)
	return err == nil
}

// after calls fn after a pause, unless the stream has ended.
func (s *simSide) after(fn func()) {
	s.stream.Conn().Loop().After(time.Duration(s.rng.Int64N(int64(s.pause))), func() {
		if !s.over {
			fn()
		}
	})
}

// arrived reads all bytes that have arrived, or a part of them now and the others later.
func (s *simSide) arrived() {
	s.sim.require.False(s.peerEnded, s.name)
	s.sim.require.Positive(s.stream.Len(), s.name)
	if s.pause == 0 {
		s.readAll()
		return
	}
	s.readPart(s.rng.IntN(1 + s.stream.Len()))
	if !s.readTimer {
		s.readTimer = true
		s.after(func() { s.readTimer = false; s.readAll(); s.write() })
	}
}

func (s *simSide) readAll() {
	for s.stream.Len() > 0 {
		s.readPart(s.stream.Len())
	}
}

// readPart reads at most n bytes, and compares them with what the peer has written.
func (s *simSide) readPart(n int) {
	got := s.stream.Bytes()
	got = bytes.Clone(got[:min(n, len(got))])
	if s.rng.IntN(2) == 0 {
		got = make([]byte, n)
		s.sim.require.Equal(n, s.stream.Read(got), s.name)
	} else {
		s.sim.require.Equal(len(got), s.stream.Discard(len(got)), s.name)
	}
	s.sim.require.LessOrEqual(s.read+len(got), s.peer.written, s.name)
	s.sim.require.True(bytes.Equal(s.peer.out[s.read:][:len(got)], got), "%s: other bytes from %d", s.name, s.read)
	s.read += len(got)
}

// endArrived is called when the peer has ended its writing direction.
func (s *simSide) endArrived() {
	s.sim.require.False(s.peerEnded, s.name)
	s.sim.require.True(s.peer.ended(), s.name)
	s.sim.require.Equal(s.peer.written, s.read+s.stream.Len(), s.name)
	s.sim.require.True(s.stream.Ended(), s.name)
	s.peerEnded = true
	if s.pause == 0 {
		s.readAll()
	}
	s.write()
}

// closedWith is called by OnClose, whose comment has the rules.
func (s *simSide) closedWith(err error) {
	s.sim.require.False(s.over, s.name)
	s.readAll()
	s.over, s.err = true, err
	var reset *stream.ResetError
	switch {
	case s.aborted:
		s.sim.require.Equal(errSimAborts, err, s.name)
	case err == nil:
		s.sim.require.True(s.hasClosed() || s.halfClosed && s.peerEnded, s.name)
		s.sim.ends.nothing++
	case errors.As(err, &reset):
		gone := s.peer.aborted || s.peer.process.ends && s.peer.stream == nil
		s.sim.require.True(gone || s.sim.mayFail(s.process, s.peer.process), "%s: %v", s.name, err)
		s.sim.ends.resets++
	default:
		s.sim.require.Equal(stream.ErrPeerClosed, err, s.name)
		s.sim.require.True(s.peer.hasClosed() && (s.peerEnded || s.hasClosed()), s.name)
		s.sim.ends.closed++
	}
}

// check is called at the end of the simulation.
func (s *simSide) check() {
	switch peer := s.peer; {
	case s.process.killed:
	case s.stream == nil:
		s.sim.require.True(s.refused || peer.process.killed || peer.refused, s.name)
	default:
		s.sim.require.True(s.over, s.name)
		if s.err == nil && !peer.process.killed && !peer.aborted && !peer.hasClosed() {
			s.sim.require.Equal(s.written, peer.read, s.name)
		}
	}
}

// simHandler is the Handler of all streams of a process.
type simHandler struct {
	stream.BaseHandler
	process *simProcess
}

func sideOf(s *stream.Stream) *simSide { return s.UserData.(*simSide) }

func (h simHandler) OnRequest(r *stream.Request) {
	s := h.process.sim.sides[r.PrivateData()[0]]
	if s.asked {
		// The network may delay a copy of a request until the connection has ended.
		s.sim.require.True(s.over || s.refused, s.name)
		s.sim.require.NoError(r.Reject(nil))
		return
	}
	s.asked = true
	_ = r.Accept(&stream.AcceptOptions{UserData: s}) // It fails if the peer has given up.
}

func (h simHandler) OnAcceptError(r *stream.Request, err error) {
	h.refused(h.process.sim.sides[r.PrivateData()[0]], err)
}

func (h simHandler) OnDialError(_ *reactor.Loop, _ netip.AddrPort, o *stream.DialOptions, err error) {
	h.refused(o.UserData.(*simSide), err)
}

func (h simHandler) refused(s *simSide, err error) {
	s.sim.require.True(s.stream == nil && !s.refused, s.name)
	s.refused = true
	gone := s.process.ends || s.peer.ended() || s.peer.aborted
	s.sim.require.True(gone || s.sim.mayFail(s.process, s.peer.process), "%s: %v", s.name, err)
}

func (h simHandler) OnOpen(st *stream.Stream) {
	s := sideOf(st)
	s.sim.require.True(s.stream == nil && !s.refused, s.name)
	s.stream = st
	s.write()
}

func (h simHandler) OnWritable(st *stream.Stream) {
	s := sideOf(st)
	s.sim.require.True(s.blocked, s.name)
	s.blocked = false
	s.write()
}

func (h simHandler) OnData(s *stream.Stream)             { sideOf(s).arrived() }
func (h simHandler) OnEnd(s *stream.Stream)              { sideOf(s).endArrived() }
func (h simHandler) OnClose(s *stream.Stream, err error) { sideOf(s).closedWith(err) }
