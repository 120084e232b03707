package reactor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestCloseDrains checks that messages that were accepted before Close are delivered.
func TestCloseDrains(t *testing.T) {
	received := 0
	p := connect(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}, nil)
	accepted := 0
	for p.dialed.Send([]byte("last words")) == nil {
		accepted++
	}
	require.NoError(t, p.dialed.Close())
	require.Equal(t, reactor.StateDraining, p.dialed.State())
	p.closed(t)
	require.Equal(t, accepted, received)
	require.NoError(t, p.dialCloseErr)
	require.Equal(t, reactor.ErrPeerClosed, p.acceptCloseErr)
	require.EqualValues(t, accepted, p.dialed.Stats().Confirmed)
	p.drive(t, func() bool { return p.client.Conns()+p.server.Conns() == 0 })
	require.Equal(t, reactor.StateClosed, p.dialed.State())
}

func TestBothSidesClose(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send([]byte("a")))
	require.NoError(t, p.accepted.Send([]byte("b")))
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
	require.NoError(t, p.dialed.Send([]byte("one")))
	require.NoError(t, p.dialed.Send([]byte("two")))
	require.NoError(t, p.dialed.Close())
	drive(t, func() bool { return p.dialCloses > 0 || p.dialed.State() > reactor.StateDraining }, p.client, p.server)
	p.closed(t)
	require.Equal(t, []string{"one", "two", "closed"}, order)
}

func TestAbort(t *testing.T) {
	cause := errors.New("test cause")
	var ends []error
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) { ends = append(ends, err) }}, &hooks{}, nil)
	require.NoError(t, p.dialed.SendWith([]byte("x"), reactor.SendOptions{Notify: true}))
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
				require.NoError(t, c.Send([]byte("1")))
				require.NoError(t, c.Send([]byte("2")))
			}}, nil)
			if name == "completion" {
				require.NoError(t, p.dialed.SendWith(nil, reactor.SendOptions{Notify: true}))
			}
			p.closed(t)
			require.NoError(t, p.dialCloseErr)
			require.LessOrEqual(t, p.dialed.Stats().Messages, uint64(2))
		})
	}
}

// TestDrainTimeout checks that a closing connection ends after DrainTimeout if the peer
// confirms nothing.
func TestDrainTimeout(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{DrainTimeout: time.Millisecond})
	require.NoError(t, p.dialed.Send([]byte("never received")))
	require.NoError(t, p.dialed.Close())
	// The server's loop does not run.
	drive(t, func() bool { return p.dialCloses > 0 }, p.client)
	require.ErrorIs(t, p.dialCloseErr, reactor.ErrDrainTimeout)
	require.EqualValues(t, 1, p.dialed.Stats().Failed)
	drive(t, func() bool { return p.client.Conns() == 0 }, p.client)
}

// TestDataNeverPrecedesOpen checks that OnOpen precedes OnMessage, even if data arrives
// before cm.Established.
func TestDataNeverPrecedesOpen(t *testing.T) {
	var order []string
	client := &hooks{open: func(c *reactor.Conn) { require.NoError(t, c.Send([]byte("early"))) }}
	server := &hooks{
		open:    func(*reactor.Conn) { order = append(order, "open") },
		message: func(*reactor.Conn, reactor.Message) { order = append(order, "message") },
	}
	p := connect(t, client, server, &reactor.Config{EpollEvery: 1 << 20})
	p.drive(t, func() bool { return len(order) == 2 })
	require.Equal(t, []string{"open", "message"}, order)
}

// TestDrainTimeoutOfDelayedLoop checks that a connection closes without an error if its
// sends were confirmed in time, but the loop sees this late.
func TestDrainTimeoutOfDelayedLoop(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{DrainTimeout: time.Hour})
	require.NoError(t, p.dialed.Send([]byte("received")))
	require.NoError(t, p.dialed.Close())
	drive(t, func() bool { return reactor.OutstandingProbes(p.client) == 1 }, p.client)
	runLate(t, p.client, 2*time.Hour, func() {
		drive(t, func() bool { return p.accepted.Stats().Messages == 1 }, p.server)
		for range 100 { // In these turns of its loop, the server handles the client's probe.
			_, err := p.server.RunOnce(0)
			require.NoError(t, err)
		}
	})
	p.closed(t)
	require.NoError(t, p.dialCloseErr)
	require.Zero(t, p.client.Stats().DrainTimeouts)
}

// TestFlushTimeoutOfDelayedLoop checks that a send that the peer has received does not
// fail, even if the loop sees its completion after the time limit of the flush.
func TestFlushTimeoutOfDelayedLoop(t *testing.T) {
	const sends = 8
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{CompletionBudget: 1, SignalEvery: 1})
	for range sends {
		require.NoError(t, p.dialed.Send([]byte("received")))
	}
	inTurn(t, p.client, func() {})
	drive(t, func() bool { return p.accepted.Stats().Messages == sends }, p.server)
	inTurn(t, p.server, func() {})
	require.NoError(t, p.dialed.Abort(nil))
	inTurn(t, p.client, func() {})
	require.Equal(t, reactor.StateFlushing, reactor.InternalState(p.dialed))
	require.Less(t, p.dialed.Stats().Confirmed, uint64(sends))
	reactor.AdvanceClock(p.client, time.Hour)
	p.closed(t)
	require.EqualValues(t, sends, p.dialed.Stats().Confirmed)
	require.Zero(t, p.dialed.Stats().Failed)
}

// TestDrainTimeoutBeginsWithTheFirstStep checks that DrainTimeout begins when the loop
// asks the peer to confirm the sends.
func TestDrainTimeoutBeginsWithTheFirstStep(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{DrainTimeout: time.Hour})
	require.NoError(t, p.dialed.Send([]byte("received")))
	require.NoError(t, p.dialed.Close())
	reactor.AdvanceClock(p.client, 2*time.Hour)
	p.closed(t)
	require.NoError(t, p.dialCloseErr)
}
