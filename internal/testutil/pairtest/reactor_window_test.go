package pairtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestReactorWindows tests Conn.Show and Conn.Hide, which bind and invalidate memory
// windows. In each round, the passive side shows a region and sends the key. The active
// side reads the region, writes to it, and sends a message. The message invalidates the
// key, except in every third round. In these rounds, the passive side invalidates the key
// with Hide. Another process runs the other side.
func TestReactorWindows(t *testing.T) {
	s := &windowSide{reactorSide: newReactorSide(t)}
	s.run(s, nil, nil, func(e *reactor.Engine) {
		var err error
		s.memory, err = e.Alloc(windowSize, verbs.AccessLocalWrite|verbs.AccessMWBind)
		require.NoError(t, err)
	}, func(*reactor.Engine) { require.NoError(t, s.memory.Close()) })
	require.Equal(t, windowRounds, s.rounds)
}

// A windowSide is the Handler of one side of TestReactorWindows.
type windowSide struct {
	reactorSide
	memory *reactor.Region // memory that the passive side shows
	rounds int
	to     reactor.Remote // window that is shown at present
}

// hides reports whether the passive side hides the present key itself.
func (s *windowSide) hides() bool { return s.rounds%3 == 2 }

func (s *windowSide) whole() reactor.Piece {
	return reactor.Piece{Region: s.memory, Length: windowSize}
}

func (s *windowSide) OnOpen(c *reactor.Conn) {
	if s.passive {
		s.show(c)
	}
}

// show fills the memory, shows it, and sends the key.
func (s *windowSide) show(c *reactor.Conn) {
	fill(s.memory.Bytes(), uint64(s.rounds))
	var err error
	s.to, err = c.Show(s.whole(), verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	s.check(c, err)
	key, _ := s.to.AppendBinary(nil)
	s.check(c, c.Send(key, nil))
}

func (s *windowSide) OnMessage(c *reactor.Conn, m reactor.Message) {
	if !s.passive {
		s.check(c, s.to.UnmarshalBinary(m.Data()))
		s.check(c, c.Read(s.to, nil, s.whole()))
		return
	}
	key, ok := m.Invalidated()
	switch {
	case s.memory.Bytes()[0] != byte(s.rounds+1):
		s.t.Errorf("round %d: the peer has written %d", s.rounds, s.memory.Bytes()[0])
	case ok != !s.hides() || ok && key != s.to.RKey:
		s.t.Errorf("round %d: key %#x, %t, instead of %#x", s.rounds, key, ok, s.to.RKey)
	}
	if s.hides() {
		s.check(c, c.Hide(s.to.RKey, nil))
		return
	}
	s.next(c)
}

// OnCompletion continues after a READ of the active side, or after Hide of the passive
// one.
func (s *windowSide) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	s.check(c, err)
	switch op.Code {
	case verbs.OpLocalInv:
		s.next(c)
	case verbs.OpRead:
		want := make([]byte, windowSize)
		fill(want, uint64(s.rounds))
		if string(want) != string(s.memory.Bytes()) {
			s.t.Errorf("round %d: wrong bytes", s.rounds)
		}
		s.check(c, c.WriteBytes(s.to, []byte{byte(s.rounds + 1)}, &reactor.OpOptions{Quiet: true}))
		o := reactor.OpOptions{Invalidate: s.to.RKey}
		if s.hides() {
			o.Invalidate = 0
		}
		s.check(c, c.Send([]byte("done"), &o))
		s.rounds++
	}
}

// next begins the next round of the passive side.
func (s *windowSide) next(c *reactor.Conn) {
	if s.rounds++; s.rounds < windowRounds {
		s.show(c)
		return
	}
	s.check(c, c.Close())
}
