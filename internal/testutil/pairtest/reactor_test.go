package pairtest_test

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestReactorWindows shows memory to a peer, with the windows of package reactor. The
// passive side shows a part of a region and sends the key. The active side reads the
// part, writes to it, and gives the key back with a message. Every third key is hidden
// by the passive side instead. Another process runs the other side.
func TestReactorWindows(t *testing.T) {
	listen, connect := os.Getenv(envListen), os.Getenv(envConnect)
	if listen+connect == "" {
		t.Skipf("needs two processes: one with %s, one with %s", envListen, envConnect)
	}
	addr, err := netip.ParseAddrPort(listen + connect)
	require.NoError(t, err)
	p, err := provider.Open(os.Getenv(envProvider), &provider.Config{Path: os.Getenv(envPath), Vectors: 1, Addr: addr.Addr()})
	require.NoError(t, err)
	done := make(chan error, 1)
	s := &windowSide{t: t, done: done}
	e, err := reactor.New(p, s, nil)
	require.NoError(t, err)
	s.memory, err = e.Alloc(windowSize, verbs.AccessLocalWrite|verbs.AccessMWBind)
	require.NoError(t, err)
	require.NoError(t, e.Start())
	if listen != "" {
		s.shows = true
		_, err = e.Listen(addr, nil)
		require.NoError(t, err)
		os.Stdout.WriteString("listening on " + addr.String() + "\n")
	} else {
		require.NoError(t, e.Dial(addr, nil))
	}
	require.NoError(t, <-done)
	require.NoError(t, s.memory.Close())
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	require.NoError(t, e.Shutdown(ctx))
	require.NoError(t, p.Close())
	require.Equal(t, windowRounds, s.rounds)
}

// A windowSide is the Handler of one side of TestReactorWindows.
type windowSide struct {
	reactor.BaseHandler
	t      *testing.T
	shows  bool // true for the passive side, which shows its memory to the peer
	memory *reactor.Region
	rounds int
	to     reactor.Remote // window that is shown at present
	done   chan error
}

// hides reports whether the passive side hides the present key itself.
func (s *windowSide) hides() bool { return s.rounds%3 == 2 }

func (s *windowSide) whole() reactor.Piece {
	return reactor.Piece{Region: s.memory, Length: windowSize}
}

func (s *windowSide) check(c *reactor.Conn, err error) {
	if err != nil {
		s.t.Error(err)
		_ = c.Abort(err)
	}
}

func (s *windowSide) OnOpen(c *reactor.Conn) {
	if s.shows {
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
	s.check(c, c.Send(key))
}

func (s *windowSide) OnMessage(c *reactor.Conn, m reactor.Message) {
	if !s.shows {
		s.check(c, s.to.UnmarshalBinary(m.Data()))
		s.check(c, c.Read(s.whole(), s.to, reactor.SendOptions{}))
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
		s.check(c, c.Hide(s.to.RKey, reactor.SendOptions{}))
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
		s.check(c, c.WriteBytes([]byte{byte(s.rounds + 1)}, s.to, reactor.SendOptions{Quiet: true}))
		o := reactor.SendOptions{Invalidate: s.to.RKey}
		if s.hides() {
			o.Invalidate = 0
		}
		s.check(c, c.SendWith([]byte("done"), o))
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

func (s *windowSide) OnClose(_ *reactor.Conn, err error) {
	if !s.shows && err == reactor.ErrPeerClosed {
		err = nil
	}
	s.done <- err
}

func (s *windowSide) OnDialError(_ *reactor.DialOptions, err error) { s.done <- err }
