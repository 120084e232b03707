package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// TestReceivesForAllMessages checks that a peer that sends all that the protocol allows,
// before this side runs, gets no RNR NAK: a data message for each credit, and six
// messages that need no credits.
func TestReceivesForAllMessages(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		const withoutCredits = 6
		server, device := newLoopOn(t, p, nil)
		var ended error
		closed := false
		ln, err := stream.Listen(server.Engine(), loopback, &hooks{
			data: func(s *stream.Stream) { s.Discard(s.Len()) },
			end:  func(*stream.Stream) {},
			close: func(_ *stream.Stream, err error) {
				ended, closed = err, true
			},
		}, nil)
		require.NoError(t, err)
		client := newLoop(t, p, &reactor.Config{MaxInFlight: 1024})
		peer := &rawPeer{}
		require.NoError(t, client.Engine().Dial(ln.Addr(), &reactor.DialOptions{
			Handler: peer, ImmediatesOnly: true, PrivateDataFor: helloWithMemory, LocalAddr: p.client,
		}))
		e := &pair{client: client, server: server}
		e.drive(t, func() bool { return peer.conn != nil && server.Conns() == 1 })
		// The first message of this side means that the stream is open here.
		e.drive(t, func() bool { return peer.got > 0 })

		const credit, shutdown, disconnect = 4<<29 | 100, 7<<29 | 2, 7 << 29
		for i := range peer.credits {
			peer.data(t, i, 1)
		}
		for _, imm := range [withoutCredits]uint32{credit, credit, credit, credit, shutdown, disconnect} {
			peer.imm(t, imm)
		}
		// Only the client runs, and its device puts the messages where the server will find
		// them.
		for range 10 {
			_, err := client.RunOnce(0)
			require.NoError(t, err)
		}
		e.drive(t, func() bool { return closed })
		require.ErrorIs(t, ended, reactor.ErrPeerClosed)
		require.Zero(t, deviceCounter(t, device, "send_rnr_err"))
	})
}

// deviceCounter returns a counter of a device by its name.
func deviceCounter(t *testing.T, p *soft.Provider, name string) uint64 {
	devices, err := p.Devices()
	require.NoError(t, err)
	list, err := devices[0].Counters(1)
	require.NoError(t, err)
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	require.FailNow(t, "no counter "+name)
	return 0
}
