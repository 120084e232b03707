package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Both sequences of states have the same order, so that the code may compare states.
func TestConnStatesAreOrdered(t *testing.T) {
	last := reactor.StateDialing
	for s := reactor.FirstConnState; s <= reactor.LastConnState; s++ {
		require.GreaterOrEqual(t, reactor.Coarse(s), last)
		last = reactor.Coarse(s)
	}
	require.Equal(t, reactor.StateClosed, last)
}

// After a failed request the connection waits for cm.Disconnected, then for an empty CQ,
// and then for the flush.
func TestStatesAfterFailedRequest(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	c := p.dialed
	inTurn(t, p.client, func() { reactor.FailRequest(c, verbs.StatusWRFlushErr) })
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	inTurn(t, p.client, func() {})
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	// The CQ was last polled before the event.
	inTurn(t, p.client, func() { reactor.InjectDisconnected(c, verbs.ErrPeerGone) })
	require.Equal(t, reactor.StateAwaitingEmptyCQ, reactor.InternalState(c))
	inTurn(t, p.client, func() {})
	require.Contains(t, []any{reactor.StateFlushing, reactor.InternalDisconnecting}, reactor.InternalState(c))
	p.closed(t)
	require.ErrorIs(t, p.dialCloseErr, verbs.ErrPeerGone)
}

// A second reason that is not provisional ends the wait for cm.Disconnected.
func TestStatesAfterSecondFailure(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	c := p.dialed
	inTurn(t, p.client, func() { reactor.FailRequest(c, verbs.StatusRetryExcErr) })
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	inTurn(t, p.client, func() { reactor.InjectDeviceEvent(c, verbs.AsyncQPFatal) })
	inTurn(t, p.client, func() { reactor.ScheduleAdvance(c) })
	require.Greater(t, reactor.InternalState(c), reactor.StateAwaitingEmptyCQ)
	p.closed(t)
	var event *reactor.AsyncError
	require.ErrorAs(t, p.dialCloseErr, &event)
}

// After Abort the connection does not wait for the peer before it flushes its queues.
func TestStatesAfterAbort(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Abort(nil))
	require.Equal(t, reactor.StateCloseBegun, reactor.InternalState(p.dialed))
	inTurn(t, p.client, func() {})
	require.Greater(t, reactor.InternalState(p.dialed), reactor.StateAwaitingEmptyCQ)
	p.closed(t)
}

// If opening fails, connection events that would continue the opening are ignored.
func TestStatesAfterFailureToOpen(t *testing.T) {
	var refused error
	client := &hooks{dialError: func(_ *reactor.DialOptions, err error) { refused = err }}
	l := newLoop(t, client, nil)
	require.NoError(t, l.Dial(listen(t, start(t, &hooks{}, nil)), nil))
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
	drive(t, func() bool { return refused != nil }, l)
	require.Equal(t, reactor.ErrDeviceRemoved, refused)
	require.Zero(t, l.Conns())
}

// inTurn calls fn in a turn of l, between the poll of the completion queues and the steps
// of closing connections.
func inTurn(t *testing.T, l *reactor.Loop, fn func()) {
	t.Helper()
	require.NoError(t, l.Post(fn))
	_, err := l.RunOnce(0)
	require.NoError(t, err)
}
