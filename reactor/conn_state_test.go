package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestConnStatesAreOrdered checks that the internal states and the states of ConnState
// have the same order, so that the code may compare states.
func TestConnStatesAreOrdered(t *testing.T) {
	last := reactor.StateDialing
	for s := reactor.FirstConnState; s <= reactor.LastConnState; s++ {
		require.GreaterOrEqual(t, reactor.Coarse(s), last)
		last = reactor.Coarse(s)
	}
	require.Equal(t, reactor.StateClosed, last)
}

// TestStatesAfterFailedRequest checks the states of a connection after one of its
// requests has failed. The connection waits for three things, one after the other: the
// event cm.Disconnected, a poll that finds the CQ empty, and the flush of the queues.
func TestStatesAfterFailedRequest(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	c := p.dialed
	inTurn(t, p.client, func() { reactor.FailRequest(c, verbs.StatusWRFlushErr) })
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	inTurn(t, p.client, func() {})
	require.Equal(t, reactor.StateAwaitingDisconnected, reactor.InternalState(c))
	// In this turn the event cm.Disconnected arrives after the poll. So the connection
	// still waits for a poll that finds the CQ empty.
	inTurn(t, p.client, func() { reactor.InjectDisconnected(c, verbs.ErrPeerGone) })
	require.Equal(t, reactor.StateAwaitingEmptyCQ, reactor.InternalState(c))
	inTurn(t, p.client, func() {})
	require.Contains(t, []any{reactor.StateFlushing, reactor.InternalDisconnecting}, reactor.InternalState(c))
	p.closed(t)
	require.ErrorIs(t, p.dialCloseErr, verbs.ErrPeerGone)
}

// TestStatesAfterSecondFailure checks a connection on which a request has failed. The
// connection first waits for the event cm.Disconnected, because this event may tell the
// reason of the failure. Then its queue pair reports a fatal event. This event is a
// definite reason, so the connection stops waiting.
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

// TestStatesAfterAbort checks that after Abort the connection flushes its queues without
// waiting for the peer.
func TestStatesAfterAbort(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Abort(nil))
	require.Equal(t, reactor.StateCloseBegun, reactor.InternalState(p.dialed))
	inTurn(t, p.client, func() {})
	require.Greater(t, reactor.InternalState(p.dialed), reactor.StateAwaitingEmptyCQ)
	p.closed(t)
}

// TestStatesAfterFailureToOpen checks that a connection that has failed to open ignores
// events that would otherwise continue the opening.
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
	require.ErrorIs(t, refused, reactor.ErrDeviceRemoved)
	require.Zero(t, l.Conns())
}

// inTurn runs one turn of l. In this turn it calls fn when the completion queues have
// been polled and the closing connections have not yet taken their next step.
func inTurn(t *testing.T, l *reactor.Loop, fn func()) {
	t.Helper()
	require.NoError(t, l.Post(fn))
	_, err := l.RunOnce(0)
	require.NoError(t, err)
}
