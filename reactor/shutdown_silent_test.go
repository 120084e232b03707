package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestSilentPeersAreDropped checks that peers that are silent since OnOpen do not delay a
// shutdown, and that sends to them are reported. The time is virtual.
func TestSilentPeersAreDropped(t *testing.T) {
	for name, sends := range map[string]int{"nothing sent": 0, "sends unconfirmed": 3} {
		t.Run(name, func(t *testing.T) {
			var failed []error
			p := connect(t, &hooks{}, &hooks{
				open: func(c *reactor.Conn) {
					for range sends {
						require.NoError(t, c.SendWith([]byte("greeting"), reactor.SendOptions{Notify: true}))
					}
				},
				completion: func(_ *reactor.Conn, _ reactor.Op, err error) { failed = append(failed, err) },
			}, nil)
			require.Empty(t, failed)
			p.server.Stop()
			// From now on the client's loop does not run, so the peer of the server is silent.
			run := func() {
				for range 100 {
					if !reactor.HasEnded(p.server.Engine()) {
						_, err := p.server.RunOnce(0)
						require.NoError(t, err)
					}
				}
			}
			run()
			require.False(t, reactor.HasEnded(p.server.Engine()), "a correct peer gets some time")
			reactor.AdvanceClock(p.server, reactor.SilentLimit)
			run()
			require.True(t, reactor.HasEnded(p.server.Engine()))
			require.Equal(t, 1, p.acceptCloses)
			require.Len(t, failed, sends)
			for _, err := range failed {
				require.ErrorIs(t, err, reactor.ErrShutdown)
			}
			if sends > 0 {
				require.ErrorIs(t, p.acceptCloseErr, reactor.ErrShutdown)
			}
		})
	}
}

// TestPeersThatWereHeardGetTheDrainTimeout checks that silentLimit does not apply to a
// peer that has sent or confirmed something, and then stops.
func TestPeersThatWereHeardGetTheDrainTimeout(t *testing.T) {
	for _, what := range []string{"message", "confirmation", "probe"} {
		t.Run(what, func(t *testing.T) {
			got := 0
			p := connect(t, &hooks{}, &hooks{
				message:    func(*reactor.Conn, reactor.Message) { got++ },
				completion: func(*reactor.Conn, reactor.Op, error) { got++ },
			}, nil)
			switch what {
			case "message":
				require.NoError(t, p.dialed.Send([]byte("hello")))
			case "confirmation":
				require.NoError(t, p.accepted.SendWith([]byte("greeting"), reactor.SendOptions{Notify: true}))
			case "probe":
				reactor.AdvanceClock(p.server, reactor.SilentLimit)
				reactor.Probe(p.accepted)
			}
			p.drive(t, func() bool { return got > 0 || what == "probe" && reactor.OutstandingProbes(p.server) == 0 })
			require.NoError(t, p.accepted.Send([]byte("unconfirmed")))
			p.server.Stop()
			for range 100 {
				_, err := p.server.RunOnce(0)
				require.NoError(t, err)
			}
			reactor.AdvanceClock(p.server, reactor.SilentLimit)
			for range 100 {
				_, err := p.server.RunOnce(0)
				require.NoError(t, err)
			}
			require.Equal(t, reactor.StateDraining, p.accepted.State())
		})
	}
}

// TestLastMessageToASilentPeer checks that a peer that only listens gets the last message
// of a StopHandler.
func TestLastMessageToASilentPeer(t *testing.T) {
	var got []string
	client := &hooks{message: func(_ *reactor.Conn, m reactor.Message) { got = append(got, string(m.Data())) }}
	server := &stopHooks{stop: func(c *reactor.Conn) {
		require.NoError(t, c.Send([]byte("bye")))
		require.NoError(t, c.Close())
	}}
	p := &pair{}
	watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
	watch(&server.hooks, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	p.server = newLoop(t, server, nil)
	p.client = newLoop(t, client, nil)
	ln, err := p.server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, p.client.Dial(ln.Addr(), nil))
	p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
	reactor.AdvanceClock(p.server, 10*reactor.SilentLimit)
	p.server.Stop()
	drive(t, func() bool { return p.acceptCloses > 0 && p.dialCloses > 0 }, p.client, p.server)
	require.NoError(t, p.acceptCloseErr)
	require.Equal(t, []string{"bye"}, got)
}
