package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestWaitingDialsAreLimited checks that a loop refuses a call of Dial while as many
// calls wait for the loop as it may have connections.
func TestWaitingDialsAreLimited(t *testing.T) {
	const limit = 3
	server := newLoop(t, &hooks{}, nil)
	addr := listen(t, server.Engine())
	failed := 0
	client := newLoop(t, &hooks{dialError: func(*reactor.DialOptions, error) { failed++ }}, &reactor.Config{MaxConns: limit})
	for range limit {
		require.NoError(t, client.Dial(addr, nil))
	}
	err := client.Dial(addr, nil)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	var full *verbs.ParamError
	require.ErrorAs(t, err, &full)
	require.EqualValues(t, limit, full.Limit)
	require.Equal(t, limit, client.Conns(), "the refused call does not count")
	drive(t, func() bool { return client.Stats().Opened == limit }, client, server)
	require.NoError(t, client.Dial(addr, nil), "no call waits any more")
	drive(t, func() bool { return failed == 1 }, client, server)
}

// TestOpenedDuringDelay checks a loop that is delayed for longer than the time limit of a
// connection that opens. The connection opens, because the peer has accepted it during
// the delay.
func TestOpenedDuringDelay(t *testing.T) {
	var dialed *reactor.Conn
	server := newLoop(t, &hooks{}, nil)
	client := newLoop(t, &hooks{
		open:      func(c *reactor.Conn) { dialed = c },
		dialError: func(_ *reactor.DialOptions, err error) { t.Errorf("dial: %v", err) },
	}, &reactor.Config{ConnectTimeout: time.Hour})
	require.NoError(t, client.Dial(listen(t, server.Engine()), nil))
	drive(t, func() bool {
		conns := reactor.ConnsOf(client)
		return len(conns) == 1 && conns[0].State() == reactor.StateConnecting
	}, client)
	runLate(t, client, 2*time.Hour, func() {
		drive(t, func() bool { return len(reactor.ConnsOf(server)) == 1 }, server)
	})
	drive(t, func() bool { return dialed != nil || t.Failed() }, client, server)
}

// TestNotOpenedDuringDelay checks that the time limit still ends a connection for which
// no event has arrived.
func TestNotOpenedDuringDelay(t *testing.T) {
	var failed error
	server := newLoop(t, &hooks{}, nil)
	client := newLoop(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed = err }},
		&reactor.Config{ConnectTimeout: time.Hour})
	require.NoError(t, client.Dial(listen(t, server.Engine()), nil))
	drive(t, func() bool {
		conns := reactor.ConnsOf(client)
		return len(conns) == 1 && conns[0].State() == reactor.StateConnecting
	}, client)
	runLate(t, client, 2*time.Hour, func() {})
	drive(t, func() bool { return failed != nil }, client)
	require.ErrorIs(t, failed, cm.ErrTimedOut)
}
