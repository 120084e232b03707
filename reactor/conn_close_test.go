package reactor_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestConnStatesAreOrdered checks that the internal states have the order of ConnState,
// so the code may compare them.
func TestConnStatesAreOrdered(t *testing.T) {
	last := reactor.StateDialing
	for s := reactor.FirstConnState; s <= reactor.LastConnState; s++ {
		require.GreaterOrEqual(t, reactor.Coarse(s), last)
		last = reactor.Coarse(s)
	}
	require.Equal(t, reactor.StateClosed, last)
}

// TestTransitions causes each event in each state of a connection, with and without an
// outstanding send. It checks the state afterwards, that an ignored event calls no callback,
// and that a loop which closes then ends the connection, with one last callback.
func TestTransitions(t *testing.T) {
	states := [...]string{
		"dialing", "connecting", "open failed", "open", "draining", "close begun", "awaiting disconnected",
		"awaiting empty CQ", "flushing", "disconnecting", "awaiting last WQE", "closed",
	}
	events := [reactor.NumConnEvents]string{"queue pair", "established", "refused", "close", "abort", "reason", "step", "timeout", "give up"}
	require.Len(t, states, int(reactor.LastConnState)+1)
	for s := reactor.FirstConnState; s <= reactor.LastConnState; s++ {
		for e := reactor.FirstConnEvent; e < reactor.NumConnEvents; e++ {
			for _, sends := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s/%s/%d sends", states[s], events[e], sends), func(t *testing.T) {
					n := &ends{}
					c, l := inState(t, s, sends, n)
					require.Equal(t, s, reactor.InternalState(c))
					before := *n
					reactor.CauseEvent(c, e)
					after := reactor.InternalState(c)
					if to, ignored := reactor.Transition(s, e); ignored {
						require.Equal(t, s, after)
						require.Equal(t, before, *n)
					} else {
						require.True(t, to(after), states[after])
					}
					require.NoError(t, l.Close())
					require.Equal(t, reactor.LastConnState, reactor.InternalState(c))
					require.Equal(t, 1, n.refused+n.closed)
					require.Equal(t, n.opened, n.closed)
				})
			}
		}
	}
}

// An ends counts callbacks of a connection.
type ends struct{ opened, closed, refused int }

// inState returns a connection in the given state, and its loop.
func inState(t *testing.T, s any, sends int, n *ends) (*reactor.Conn, *reactor.Loop) {
	client := &hooks{
		open:      func(*reactor.Conn) { n.opened++ },
		close:     func(*reactor.Conn, error) { n.closed++ },
		dialError: func(*reactor.DialOptions, error) { n.refused++ },
	}
	opening := func() (*reactor.Conn, *reactor.Loop) {
		server := newLoop(t, &hooks{request: func(*reactor.ConnRequest) {}}, nil)
		ln, err := server.Engine().Listen(loopback, nil)
		require.NoError(t, err)
		l := newLoop(t, client, nil)
		require.NoError(t, l.Engine().Dial(ln.Addr(), nil))
		_, err = l.RunOnce(0)
		require.NoError(t, err)
		require.Len(t, reactor.ConnsOf(l), 1)
		return reactor.ConnsOf(l)[0], l
	}
	switch s {
	case reactor.FirstConnState:
		return opening()
	case reactor.InternalConnecting, reactor.StateOpenFailed:
		c, l := opening()
		drive(t, func() bool { return reactor.InternalState(c) == reactor.InternalConnecting }, l)
		if s == reactor.StateOpenFailed {
			reactor.RemoveDevice(c)
		}
		return c, l
	}
	p := connect(t, client, &hooks{}, nil)
	c, l := p.dialed, p.client
	for range sends {
		require.NoError(t, c.Send([]byte("text"), &reactor.OpOptions{Notify: true}))
	}
	alone := func(until any) {
		drive(t, func() bool { return reactor.InternalState(c) == until }, l)
	}
	switch s {
	case reactor.InternalDraining:
		require.NoError(t, c.Close())
	case reactor.StateCloseBegun:
		require.NoError(t, c.Abort(nil))
	case reactor.StateAwaitingDisconnected, reactor.StateAwaitingEmptyCQ:
		inTurn(t, l, func() { reactor.FailRequest(c, verbs.StatusWRFlushErr) })
		if s == reactor.StateAwaitingEmptyCQ {
			inTurn(t, l, func() { reactor.InjectDisconnected(c, verbs.ErrPeerGone) })
		}
	case reactor.StateFlushing:
		inTurn(t, l, func() { require.NoError(t, c.Abort(nil)) })
	case reactor.InternalDisconnecting, reactor.StateAwaitingLastWQE:
		require.NoError(t, c.Abort(nil))
		alone(reactor.InternalDisconnecting)
		if s == reactor.StateAwaitingLastWQE {
			reactor.EnterAwaitingLastWQE(c)
		}
	case reactor.LastConnState:
		require.NoError(t, c.Abort(nil))
		p.drive(t, func() bool { return reactor.InternalState(c) == reactor.LastConnState })
	}
	return c, l
}

// TestStatesAfterFailedRequest checks the states of a connection after a failed request:
// it waits for cm.Disconnected, for an empty CQ, and for the flush.
func TestStatesAfterFailedRequest(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	c := p.dialed
	inTurn(t, p.client, func() { reactor.FailRequest(c, verbs.StatusWRFlushErr) })
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	inTurn(t, p.client, func() {})
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	// cm.Disconnected arrives after the poll of the CQ, so the connection must wait for
	// an empty CQ.
	inTurn(t, p.client, func() { reactor.InjectDisconnected(c, verbs.ErrPeerGone) })
	require.Equal(t, reactor.StateAwaitingEmptyCQ, reactor.InternalState(c))
	inTurn(t, p.client, func() {})
	require.Contains(t, []any{reactor.StateFlushing, reactor.InternalDisconnecting}, reactor.InternalState(c))
	p.closed(t)
	require.ErrorIs(t, p.dialCloseErr, verbs.ErrPeerGone)
}

// TestStatesAfterSecondFailure checks that a fatal event of the queue pair ends the wait
// for cm.Disconnected.
func TestStatesAfterSecondFailure(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	c := p.dialed
	inTurn(t, p.client, func() { reactor.FailRequest(c, verbs.StatusRetryExcErr) })
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	inTurn(t, p.client, func() { reactor.InjectDeviceEvent(c, verbs.AsyncQPFatal) })
	inTurn(t, p.client, func() { reactor.ScheduleStep(c) })
	require.Greater(t, reactor.InternalState(c), reactor.StateAwaitingEmptyCQ)
	p.closed(t)
	var event *verbs.AsyncError
	require.ErrorAs(t, p.dialCloseErr, &event)
}

// TestStatesAfterAbort checks that Abort flushes the queues without waiting for the
// peer.
func TestStatesAfterAbort(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Abort(nil))
	require.Equal(t, reactor.StateCloseBegun, reactor.InternalState(p.dialed))
	inTurn(t, p.client, func() {})
	require.Greater(t, reactor.InternalState(p.dialed), reactor.StateAwaitingEmptyCQ)
	p.closed(t)
}

// TestStatesAfterFailureToOpen checks that a connection that has failed to open ignores
// later events of the opening.
func TestStatesAfterFailureToOpen(t *testing.T) {
	var refused error
	client := &hooks{dialError: func(_ *reactor.DialOptions, err error) { refused = err }}
	l := newLoop(t, client, nil)
	require.NoError(t, l.Engine().Dial(listen(t, start(t, &hooks{}, nil)), nil))
	_, err := l.RunOnce(0)
	require.NoError(t, err)
	require.Len(t, reactor.ConnsOf(l), 1)
	c := reactor.ConnsOf(l)[0]
	reactor.RemoveDevice(c)
	require.Equal(t, reactor.StateOpenFailed, reactor.InternalState(c))
	for _, typ := range []cm.EventType{cm.AddrResolved, cm.RouteResolved, cm.Established} {
		reactor.InjectEvent(c, typ)
		require.Equal(t, reactor.StateOpenFailed, reactor.InternalState(c))
		require.NoError(t, refused)
	}
	for _, typ := range []cm.EventType{cm.Rejected, cm.Unreachable, cm.ConnectError} {
		reactor.InjectError(c, typ, cm.ErrTimedOut)
		require.NoError(t, refused)
		require.Equal(t, reactor.StateOpenFailed, reactor.InternalState(c))
	}
	drive(t, func() bool { return refused != nil }, l)
	require.ErrorIs(t, refused, reactor.ErrDeviceRemoved)
	require.Zero(t, l.Conns())
}

// inTurn runs one turn of l, and calls fn before the closing connections take their next
// step.
func inTurn(t *testing.T, l *reactor.Loop, fn func()) {
	t.Helper()
	require.NoError(t, l.Post(fn))
	_, err := l.RunOnce(0)
	require.NoError(t, err)
}

// TestCloseDrains checks that messages that were accepted before Close are delivered.
func TestCloseDrains(t *testing.T) {
	received := 0
	p := connect(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}, nil)
	accepted := 0
	for p.dialed.Send([]byte("last words"), nil) == nil {
		accepted++
	}
	require.NoError(t, p.dialed.Close())
	require.Equal(t, reactor.StateDraining, p.dialed.State())
	p.closed(t)
	require.Equal(t, accepted, received)
	require.NoError(t, p.dialCloseErr)
	require.Equal(t, &reactor.CloseError{Cause: reactor.ErrPeerClosed, Peer: reactor.CloseReason{Kind: reactor.CloseNormal}}, p.acceptCloseErr)
	require.EqualValues(t, accepted, p.dialed.Stats().Confirmed)
	p.drive(t, func() bool { return p.client.Conns()+p.server.Conns() == 0 })
	require.Equal(t, reactor.StateClosed, p.dialed.State())
}

func TestBothSidesClose(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send([]byte("a"), nil))
	require.NoError(t, p.accepted.Send([]byte("b"), nil))
	require.NoError(t, p.dialed.Close())
	require.NoError(t, p.accepted.Close())
	p.closed(t)
	for _, end := range []error{p.dialCloseErr, p.acceptCloseErr} {
		// One side may disconnect first. The other side gets ErrPeerClosed.
		if end != nil {
			require.ErrorIs(t, end, reactor.ErrPeerClosed)
		}
	}
}

// TestPeerCloses checks that messages from before the peer's disconnect are delivered
// before OnClose.
func TestPeerCloses(t *testing.T) {
	var order []string
	p := connect(t, &hooks{}, &hooks{
		message: func(_ *reactor.Conn, msg reactor.Message) { order = append(order, string(msg.Data())) },
		close:   func(*reactor.Conn, error) { order = append(order, "closed") },
	}, nil)
	require.NoError(t, p.dialed.Send([]byte("one"), nil))
	require.NoError(t, p.dialed.Send([]byte("two"), nil))
	require.NoError(t, p.dialed.Close())
	drive(t, func() bool { return p.dialCloses > 0 || p.dialed.State() > reactor.StateDraining }, p.client, p.server)
	p.closed(t)
	require.Equal(t, []string{"one", "two", "closed"}, order)
}

func TestAbort(t *testing.T) {
	cause := errors.New("test cause")
	var ends []error
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) { ends = append(ends, err) }}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send([]byte("x"), &reactor.OpOptions{Notify: true}))
	require.NoError(t, p.dialed.Abort(cause))
	require.ErrorIs(t, p.dialed.Abort(nil), reactor.ErrClosed)
	require.ErrorIs(t, p.dialed.Close(), reactor.ErrClosed)
	p.closed(t)
	require.ErrorIs(t, p.dialCloseErr, cause)
	require.Error(t, p.acceptCloseErr)
	require.Len(t, ends, 1, "OnCompletion is called once")
}

// TestCloseInCallbacks checks that a callback may close its connection.
func TestCloseInCallbacks(t *testing.T) {
	for _, name := range []string{"open", "message", "completion"} {
		t.Run(name, func(t *testing.T) {
			stop := func(c *reactor.Conn) { require.NoError(t, c.Close()) }
			client := &hooks{}
			switch name {
			case "open":
				client.open = stop
			case "message":
				client.message = func(c *reactor.Conn, _ reactor.Message) { stop(c) }
			case "completion":
				client.completion = func(c *reactor.Conn, _ reactor.Op, _ error) { stop(c) }
			}
			p := connect(t, client, &hooks{open: func(c *reactor.Conn) {
				require.NoError(t, c.Send([]byte("1"), nil))
				require.NoError(t, c.Send([]byte("2"), nil))
			}}, nil)
			if name == "completion" {
				require.NoError(t, p.dialed.Send(nil, &reactor.OpOptions{Notify: true}))
			}
			p.closed(t)
			require.NoError(t, p.dialCloseErr)
			require.LessOrEqual(t, p.dialed.Stats().Messages, uint64(2))
		})
	}
}

// TestDataNeverPrecedesOpen checks that OnOpen precedes OnMessage, even if data arrives
// before cm.Established.
func TestDataNeverPrecedesOpen(t *testing.T) {
	var order []string
	client := &hooks{open: func(c *reactor.Conn) { require.NoError(t, c.Send([]byte("early"), nil)) }}
	server := &hooks{
		open:    func(*reactor.Conn) { order = append(order, "open") },
		message: func(*reactor.Conn, reactor.Message) { order = append(order, "message") },
	}
	p := connect(t, client, server, &reactor.Config{Limits: reactor.Limits{EpollEvery: 1 << 20}})
	p.drive(t, func() bool { return len(order) == 2 })
	require.Equal(t, []string{"open", "message"}, order)
}
