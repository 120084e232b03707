package pairtest_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A reactorSide is one side of a test with package reactor. Another process runs the
// other side. The Handler of a test embeds a reactorSide.
type reactorSide struct {
	reactor.BaseHandler
	t       *testing.T
	passive bool // true for the side that listens
	addr    netip.AddrPort
	done    chan error // gets the error of OnClose or OnDialError
}

// newReactorSide returns the side that the environment variables choose.
func newReactorSide(t *testing.T) reactorSide {
	listen, connect := os.Getenv(envListen), os.Getenv(envConnect)
	if listen+connect == "" {
		t.Skipf("needs two processes: one with %s, one with %s", envListen, envConnect)
	}
	addr, err := netip.ParseAddrPort(listen + connect)
	require.NoError(t, err)
	return reactorSide{t: t, passive: listen != "", addr: addr, done: make(chan error, 1)}
}

// run makes a connection to the other side, and waits until it has ended. The parameter h
// is the Handler of the test. The function prepare is called before the Engine starts,
// and finish is called after the connection has ended.
//
// The passive side waits for SIGINT before it stops. Its last answer to the active side
// may be lost. Then the active side repeats its message, and the passive side can still
// answer it.
func (s *reactorSide) run(h reactor.Handler, cfg *reactor.Config, o *reactor.ListenOptions, prepare, finish func(*reactor.Engine)) {
	p := openFromEnv(s.t, s.addr)
	e, err := reactor.New(p, h, cfg)
	require.NoError(s.t, err)
	prepare(e)
	require.NoError(s.t, e.Start())
	if s.passive {
		_, err = e.Listen(s.addr, o)
		require.NoError(s.t, err)
		os.Stdout.WriteString("listening on " + s.addr.String() + "\n")
	} else {
		require.NoError(s.t, e.Dial(s.addr, nil))
	}
	stopped, stop := signal.NotifyContext(s.t.Context(), os.Interrupt)
	defer stop()
	require.NoError(s.t, <-s.done)
	if s.passive {
		<-stopped.Done()
	}
	finish(e)
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	require.NoError(s.t, e.Shutdown(ctx))
	require.NoError(s.t, p.Close())
}

// check ends the connection if err is not nil.
func (s *reactorSide) check(c *reactor.Conn, err error) {
	if err != nil {
		s.t.Error(err)
		_ = c.Abort(err)
	}
}

// sendAddress sends the address and the key of a region.
func (s *reactorSide) sendAddress(c *reactor.Conn, r *reactor.Region) {
	at, err := r.Remote(c.Info().Device, 0, len(r.Bytes()))
	s.check(c, err)
	b, _ := at.AppendBinary(nil)
	s.check(c, c.Send(b, nil))
}

func (s *reactorSide) OnClose(_ *reactor.Conn, err error) {
	if errors.Is(err, reactor.ErrPeerClosed) {
		err = nil
	}
	s.done <- err
}

func (s *reactorSide) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	s.done <- err
}
