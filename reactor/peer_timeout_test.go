//go:build linux

package reactor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// peerTimeout is a short Config.PeerTimeout. Arbitrary.
const peerTimeout = 50 * time.Millisecond

// A failover dials its servers in turn, and sends requests on the connection. At most one
// request is under way.
type failover struct {
	hooks
	client  *reactortest.Process
	engine  *reactor.Engine
	servers []*reactortest.Process
	dials   int
	conn    *reactor.Conn
	pause   time.Duration // from an answer to the next request; negative means no requests
	answers int
	ends    []error // arguments of OnClose
}

func (f *failover) dial() {
	server := f.servers[f.dials%len(f.servers)]
	f.dials++
	_ = f.engine.Dial(server.Host().AddrPort(f.port(server)), nil) // Dial fails at the end of the test.
}

// port returns the port of a server: servers may share a host.
func (f *failover) port(of *reactortest.Process) uint16 {
	for i, s := range f.servers {
		if s == of {
			return uint16(i + 1)
		}
	}
	panic("not a server")
}

// newFailover starts two servers and a client, which is connected to the first server.
func newFailover(t *testing.T, w *reactortest.World, wire bool, pause time.Duration) *failover {
	f := &failover{pause: pause}
	host := w.Host("client")
	for _, name := range []string{"first", "second"} {
		on := host
		if wire {
			on = w.Host(name)
		}
		f.servers = append(f.servers, on.Process(name))
	}
	for _, s := range f.servers {
		_, err := s.Start(&hooks{message: echo(t)}, nil).Listen(s.Host().AddrPort(f.port(s)), nil)
		require.NoError(t, err)
	}
	request := func(c *reactor.Conn) {
		// Send fails if the connection has ended meanwhile.
		_ = c.Send([]byte("request"), nil)
	}
	f.open = func(c *reactor.Conn) {
		if f.conn = c; f.pause >= 0 {
			request(c)
		}
	}
	f.message = func(c *reactor.Conn, _ reactor.Message) {
		f.answers++
		c.Loop().After(f.pause, func() { request(c) })
	}
	f.close = func(_ *reactor.Conn, err error) {
		f.conn, f.ends = nil, append(f.ends, err)
		f.dial()
	}
	f.client = host.Process("client")
	f.engine = f.client.Start(f, &reactor.Config{PeerTimeout: peerTimeout})
	f.dial()
	w.Until(time.Second, func() bool { return f.conn != nil })
	return f
}

// TestFailover checks that a client with a short PeerTimeout is connected to its second
// server within twice that time after the first was killed, or has stopped: on both paths,
// with and without requests under way.
func TestFailover(t *testing.T) {
	seeds := 10
	if testing.Short() {
		seeds = 2
	}
	for name, test := range map[string]struct {
		wire  bool
		pause time.Duration
		end   func(*reactortest.Process)
		want  error
	}{
		"local, killed":        {false, 20 * time.Millisecond, (*reactortest.Process).Kill, verbs.ErrPeerGone},
		"local, killed, idle":  {false, -1, (*reactortest.Process).Kill, verbs.ErrPeerGone},
		"local, stopped":       {false, 5 * time.Millisecond, (*reactortest.Process).Stop, nil},
		"local, stopped, idle": {false, -1, (*reactortest.Process).Stop, reactor.ErrKeepalive},
		"wire, killed":         {true, 5 * time.Millisecond, (*reactortest.Process).Kill, nil},
		"wire, killed, idle":   {true, -1, (*reactortest.Process).Kill, reactor.ErrKeepalive},
		"wire, stopped":        {true, 20 * time.Millisecond, (*reactortest.Process).Stop, nil},
		"wire, stopped, idle":  {true, -1, (*reactortest.Process).Stop, reactor.ErrKeepalive},
		"host stops":           {true, 5 * time.Millisecond, func(p *reactortest.Process) { p.Host().Stop() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			reactortest.Seeds(t, seeds, func(t *testing.T, w *reactortest.World) {
				f := newFailover(t, w, test.wire, test.pause)
				w.For(time.Second + time.Duration(w.Rand().Int64N(int64(peerTimeout))))
				before := w.Now()
				test.end(f.servers[0])
				w.Until(time.Second, func() bool { return len(f.ends) > 0 && f.conn != nil })
				took := w.Now() - before
				t.Logf("%v: %v", took, f.ends)
				require.LessOrEqual(t, took, 2*peerTimeout)
				require.Len(t, f.ends, 1)
				if test.want != nil {
					require.ErrorIs(t, f.ends[0], test.want)
				} else {
					var failed *verbs.CompletionError
					require.True(t, errors.As(f.ends[0], &failed) && failed.Status == verbs.StatusRetryExcErr, "%v", f.ends[0])
				}
				answers := f.answers
				w.For(time.Second)
				require.Equal(t, test.pause >= 0, f.answers > answers, "requests of the second connection")
				require.Len(t, f.ends, 1)
			})
		})
	}
}

// TestNoFalseAlarm checks that no connection ends while the process of either side is
// stopped again and again, each time for a little less than PeerTimeout. While this side is
// stopped, too, that does not count. The link is interrupted only for three quarters of that
// time: then the next attempt has to be in time.
func TestNoFalseAlarm(t *testing.T) {
	lasts, pauses := 10*time.Second, []time.Duration{-1, 10 * time.Millisecond}
	if !testing.Short() {
		lasts = time.Hour / time.Duration(2*len(pauses))
	}
	for _, wire := range []bool{false, true} {
		for _, pause := range pauses {
			t.Run(fmt.Sprint("wire ", wire, ", pause ", pause), func(t *testing.T) {
				reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
					f := newFailover(t, w, wire, pause)
					client, server := f.client, f.servers[0]
					upTo := func(d time.Duration) time.Duration { return time.Duration(w.Rand().Int64N(int64(d))) }
					for w.Now() < lasts {
						w.For(peerTimeout/5 + upTo(2*peerTimeout)) // more than an ACK timeout
						switch stop := peerTimeout - time.Millisecond - upTo(peerTimeout/5); w.Rand().IntN(4) {
						case 0:
							client.Stop()
							w.For(stop)
							client.Continue()
						case 1:
							server.Stop()
							w.For(stop)
							server.Continue()
						case 2:
							before := upTo(peerTimeout / 2)
							server.Stop()
							w.For(before)
							client.Stop()
							w.For(stop)
							client.Continue()
							w.For(peerTimeout*3/4 - before)
							server.Continue()
						default:
							w.Cut(client.Host(), server.Host())
							w.For(stop * 3 / 4)
							w.Heal(client.Host(), server.Host())
						}
						require.Empty(t, f.ends, "at %v", w.Now())
					}
					require.Equal(t, pause >= 0, f.answers > int(lasts/time.Second))
				})
			})
		}
	}
}
