package reactor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// connsPerCQ is the number of connections that fit on a CQ of the server in these tests.
const connsPerCQ = 3

// A manyConns is a server whose device has small CQs, and a client with many connections
// to it.
type manyConns struct {
	t              *testing.T
	device         *strictDevice
	server, client *reactor.Loop
	dialed         []*reactor.Conn
	accepted       []*reactor.Conn
	dialErrs       []error // errors that OnDialError got
	acceptErrs     []error // errors that OnAcceptError got
	requests       int     // number of calls of OnConnectRequest
	echoes         int
}

// newManyConns makes a server loop and a client loop. The server's device has at most
// maxCQ CQs, each for connsPerCQ connections.
func newManyConns(t *testing.T, maxCQ int, caps func(*verbs.Caps), cfg reactor.Config) *manyConns {
	w := &manyConns{t: t}
	depth := connsPerCQ * (2*cfg.MaxInFlight + 1)
	if cfg.Memory.SharedRecvBuffers > 0 {
		depth = connsPerCQ*(cfg.MaxInFlight+1) + cfg.Memory.SharedRecvBuffers
	}
	p, err := newStrictProvider(openSoft(t), func(a *verbs.DeviceAttr) { a.MaxCQ, a.MaxCQE = maxCQ, depth }, caps)
	require.NoError(t, err)
	w.device = p.device
	w.server, err = reactor.NewLoop(p, &hooks{
		request: func(req *reactor.ConnRequest) {
			w.requests++
			require.NoError(t, req.Accept(nil))
		},
		open:        func(c *reactor.Conn) { w.accepted = append(w.accepted, c) },
		message:     echo(t),
		acceptError: func(_ *reactor.ConnRequest, err error) { w.acceptErrs = append(w.acceptErrs, err) },
	}, &cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.server.Close())
		require.Zero(t, w.device.openCQs(), "every completion queue is closed")
	})
	w.client = newLoop(t, &hooks{
		open:      func(c *reactor.Conn) { w.dialed = append(w.dialed, c) },
		message:   func(*reactor.Conn, reactor.Message) { w.echoes++ },
		dialError: func(_ *reactor.DialOptions, err error) { w.dialErrs = append(w.dialErrs, err) },
	}, &reactor.Config{MaxInFlight: cfg.MaxInFlight})
	return w
}

// dial dials n more connections, and waits until each one is open or has failed.
func (w *manyConns) dial(n int) {
	w.t.Helper()
	ln, err := w.server.Engine().Listen(loopback, nil)
	require.NoError(w.t, err)
	want := len(w.dialed) + len(w.dialErrs) + n
	for range n {
		require.NoError(w.t, w.client.Engine().Dial(ln.Addr(), nil))
	}
	w.drive(func() bool {
		return len(w.dialed)+len(w.dialErrs) == want && len(w.accepted) == len(w.dialed)
	})
	require.NoError(w.t, ln.Close())
}

func (w *manyConns) drive(cond func() bool) {
	w.t.Helper()
	drive(w.t, cond, w.client, w.server)
}

// echo sends a message on every connection, and waits for all answers.
func (w *manyConns) echo() {
	w.t.Helper()
	want := w.echoes + len(w.dialed)
	for i, c := range w.dialed {
		require.NoError(w.t, c.Send(fmt.Append(nil, i), nil))
	}
	w.drive(func() bool { return w.echoes == want })
}

// closeConns closes connections, and waits until the server has removed them.
func (w *manyConns) closeConns(conns ...*reactor.Conn) {
	w.t.Helper()
	want := w.server.Conns() - len(conns)
	for _, c := range conns {
		require.NoError(w.t, c.Close())
	}
	w.drive(func() bool { return w.server.Conns() == want })
}

// TestConnectionsBeyondOneCQ checks that a loop can have more connections than fit on
// one CQ.
func TestConnectionsBeyondOneCQ(t *testing.T) {
	fixed := func(c *verbs.Caps) { c.ResizeCQ = false }
	for name, c := range map[string]struct {
		caps func(*verbs.Caps)
		cfg  reactor.Config
	}{
		"CQs that can be resized":     {nil, reactor.Config{MaxInFlight: 7, Memory: reactor.Memory{SharedRecvBuffers: -1}}},
		"CQs that can not be resized": {fixed, reactor.Config{MaxInFlight: 7, Memory: reactor.Memory{SharedRecvBuffers: -1}}},
		"shared receive queue":        {nil, reactor.Config{MaxInFlight: 7, Memory: reactor.Memory{SharedRecvBuffers: 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newManyConns(t, 100, c.caps, c.cfg)
			w.dial(10)
			require.Len(t, w.dialed, 10, "%v %v", w.acceptErrs, w.dialErrs)
			require.Equal(t, 4, w.device.openCQs(), "four CQs have 3, 3, 3 and 1 connections")
			for range 20 {
				w.echo()
			}
			require.NoError(t, w.server.Close())
			require.EqualValues(t, 200, w.server.Stats().Messages)
		})
	}
}

// TestNoMoreCQs checks that a connection is refused if all CQs are full. After one
// closes, another can take its place.
func TestNoMoreCQs(t *testing.T) {
	w := newManyConns(t, 2, nil, reactor.Config{MaxInFlight: 7, Memory: reactor.Memory{SharedRecvBuffers: -1}})
	w.dial(6)
	require.Empty(t, w.dialErrs)
	w.dial(1)
	var param *verbs.ParamError
	require.ErrorAs(t, w.acceptErrs[0], &param)
	require.Equal(t, "completion queues", param.Field)
	require.ErrorIs(t, w.acceptErrs[0], verbs.ErrNoResources)
	requests := w.requests
	w.dial(3)
	require.Len(t, w.dialErrs, 4)
	for _, err := range w.dialErrs {
		var refused *cm.RejectError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, cm.RejectNoResources, refused.Reason)
	}
	require.Equal(t, requests, w.requests, "OnConnectRequest is not called again")
	w.echo()
	w.closeConns(w.dialed[0])
	w.dialed, w.accepted = w.dialed[1:], w.accepted[1:]
	w.dial(1)
	require.Len(t, w.dialErrs, 4)
	w.echo()
}

// TestCQsArePolledInTurn checks that two CQs with more completions than
// Config.Limits.CompletionBudget do not delay a third one.
func TestCQsArePolledInTurn(t *testing.T) {
	w := newManyConns(t, 100, nil, reactor.Config{MaxInFlight: 7, Limits: reactor.Limits{CompletionBudget: 1}, Memory: reactor.Memory{SharedRecvBuffers: -1}})
	w.dial(2*connsPerCQ + 1)
	other := w.dialed[2*connsPerCQ]
	for _, c := range w.dialed[:2*connsPerCQ] {
		for range 7 {
			require.NoError(t, c.Send(nil, nil))
		}
		c.Flush()
	}
	require.NoError(t, other.Send(nil, nil))
	other.Flush()
	last := w.accepted[2*connsPerCQ]
	// The loop takes one completion per turn. In three turns it polls each of its three
	// CQs once.
	for range 3 {
		_, err := w.server.RunOnce(0)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, last.Stats().Messages)
}

// TestHeldCompletionsAreNotAnEmptyPoll checks a poll that returns only the completions
// that Arm has found before. The CQ may hold newer completions, so this poll must not
// count as a poll that has left the CQ empty.
func TestHeldCompletionsAreNotAnEmptyPoll(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.accepted.Send(nil, nil))
	p.accepted.Flush()
	drive(t, func() bool {
		busy, err := reactor.Arm(p.client)
		require.NoError(t, err)
		return busy
	}, p.server)
	before := reactor.EmptyPolls(p.dialed)
	reactor.PollCQ(p.dialed)
	require.EqualValues(t, 1, p.dialed.Stats().Messages)
	require.Equal(t, before, reactor.EmptyPolls(p.dialed))
	reactor.PollCQ(p.dialed)
	require.Equal(t, before+1, reactor.EmptyPolls(p.dialed))
}
