package reactor_test

import (
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
	inTurn(t, p.client, func() { reactor.ScheduleAdvance(c) })
	require.Greater(t, reactor.InternalState(c), reactor.StateAwaitingEmptyCQ)
	p.closed(t)
	var event *reactor.AsyncError
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
