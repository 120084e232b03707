package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestQueuePairEventVisitsOneConnection checks that an event of a queue pair costs
// nothing for other connections. The loop has connections that are nil, so a visit
// panics.
func TestQueuePairEventVisitsOneConnection(t *testing.T) {
	for _, kind := range []verbs.AsyncEventType{
		verbs.AsyncQPFatal, verbs.AsyncQPRequestError, verbs.AsyncQPAccessError, verbs.AsyncQPLastWQE,
		verbs.AsyncSRQLimit, verbs.AsyncPortError,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			p := connect(t, &hooks{}, &hooks{}, nil)
			remove := reactor.AddNilConns(p.client, 9000)
			reactor.InjectDeviceEvent(p.dialed, kind)
			remove()
			if kind == verbs.AsyncQPLastWQE || kind == verbs.AsyncSRQLimit || kind == verbs.AsyncPortError {
				require.Equal(t, reactor.StateOpen, p.dialed.State())
				return
			}
			p.closed(t)
			var event *reactor.AsyncError
			require.ErrorAs(t, p.dialCloseErr, &event)
			require.Equal(t, kind, event.Type)
		})
	}
}

// TestQueuePairEventWakesOneLoop checks that the event of a queue pair goes to the loop
// of its connection only.
func TestQueuePairEventWakesOneLoop(t *testing.T) {
	opened, closed := make(chan *reactor.Conn, 1), make(chan error, 1)
	e := start(t, &hooks{
		request: func(r *reactor.ConnRequest) {
			_ = r.Steer(r.Engine().Loop(1))
			_ = r.Accept(nil)
		},
		open:  func(c *reactor.Conn) { opened <- c },
		close: func(_ *reactor.Conn, err error) { closed <- err },
	}, &reactor.Config{NumLoops: 4})
	client := start(t, &hooks{}, nil)
	require.NoError(t, client.Dial(listen(t, e), nil))
	c := receive(t, opened)
	posted := func(i int) uint64 {
		n := make(chan uint64, 1)
		require.NoError(t, e.Loop(i).Post(func() { n <- reactor.PostedFunctions(e.Loop(i)) }))
		return receive(t, n)
	}
	before := []uint64{posted(2), posted(3)}
	require.NoError(t, e.Loop(0).Post(func() { reactor.InjectDeviceEventOn(e.Loop(0), c, verbs.AsyncQPFatal) }))
	require.ErrorContains(t, receive(t, closed), verbs.AsyncQPFatal.String())
	for i, n := range before {
		require.Equal(t, n+1, posted(2+i), "only the call of posted itself")
	}
}

// TestQueuePairEventAfterTheEnd checks that an event of a connection that has ended has
// no effect, and that the engine keeps nothing of it.
func TestQueuePairEventAfterTheEnd(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.Equal(t, 1, reactor.OwnedQPs(p.client.Engine()))
	require.NoError(t, p.dialed.Abort(nil))
	p.closed(t)
	p.drive(t, func() bool { return p.dialed.State() == reactor.StateClosed })
	require.Zero(t, reactor.OwnedQPs(p.client.Engine()))
	reactor.InjectDeviceEvent(p.dialed, verbs.AsyncQPFatal)
	reactor.InjectLateEvent(p.dialed, verbs.AsyncQPFatal)
	require.Equal(t, reactor.StateClosed, p.dialed.State())
	require.Equal(t, 1, p.dialCloses)
}
