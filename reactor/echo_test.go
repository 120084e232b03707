package reactor_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestEcho(t *testing.T) {
	for _, policy := range []reactor.IdlePolicy{reactor.IdleAdaptive, reactor.IdleEvent, reactor.IdleBusy} {
		t.Run(policy.String(), func(t *testing.T) {
			const count = 200
			cfg := &reactor.Config{Idle: policy}
			server := start(t, &hooks{message: echo(t)}, cfg)
			done := make(chan uint64, 1)
			client := start(t, &hooks{
				open: func(c *reactor.Conn) { assert.NoError(t, c.Send(make([]byte, 8), nil)) },
				message: func(c *reactor.Conn, msg reactor.Message) {
					n := binary.LittleEndian.Uint64(msg.Data()) + 1
					if n == count {
						done <- n
						return
					}
					if err := c.Send(binary.LittleEndian.AppendUint64(nil, n), nil); err != nil {
						t.Error(err)
					}
				},
			}, cfg)
			require.NoError(t, client.Dial(listen(t, server), nil))
			require.EqualValues(t, count, receive(t, done))
		})
	}
}

// TestEchoServer checks that the server of the examples answers every message of a client
// that limits itself by its send queue only, although the server's send queue fills up.
func TestEchoServer(t *testing.T) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t.Run(path.String(), func(t *testing.T) {
			const count = 20_000
			port, client := freeport.UDP(t), &flooder{left: count, total: make(chan int, 1)}
			server, dialing := pathLoop(t, path, port, echoServer{}, nil), pathLoop(t, path, port, client, nil)
			ln, err := server.Engine().Listen(loopback, nil)
			require.NoError(t, err)
			require.NoError(t, dialing.Engine().Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.0.0.2:0")}))
			drive(t, func() bool { return len(client.total) > 0 }, dialing, server)
			require.Equal(t, count, <-client.total)
			require.NotZero(t, server.Stats().QueueFull)
		})
	}
}

func TestEchoOfEverySize(t *testing.T) {
	cfg := &reactor.Config{MaxMessage: 1000, Transport: reactor.Transport{MaxInline: 64}}
	for _, size := range []int{0, 1, 63, 64, 65, 999, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			sent := make([]byte, size)
			for i := range sent {
				sent[i] = byte(i * 7)
			}
			var got []byte
			var received bool
			p := connect(t, &hooks{message: func(_ *reactor.Conn, msg reactor.Message) {
				got, received = append(got, msg.Data()...), true
			}}, &hooks{message: echo(t)}, cfg)
			require.NoError(t, p.dialed.Send(sent, nil))
			p.drive(t, func() bool { return received })
			require.Equal(t, sent, append([]byte{}, got...))
		})
	}
}

// TestEchoDoesNotAllocate checks that small and large messages and their echoes allocate
// nothing, also if every turn and every callback is measured.
func TestEchoDoesNotAllocate(t *testing.T) {
	for name, cfg := range map[string]*reactor.Config{
		"default":  nil,
		"measured": {LatencyEvery: 1, Limits: reactor.Limits{SlowCallback: testTimeout}},
	} {
		for _, size := range []int{64, 2000} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) { testEchoDoesNotAllocate(t, size, cfg) })
		}
	}
}

func testEchoDoesNotAllocate(t *testing.T, size int, cfg *reactor.Config) {
	echoes := 0
	p := connect(t, &hooks{message: func(*reactor.Conn, reactor.Message) { echoes++ }},
		&hooks{message: func(c *reactor.Conn, msg reactor.Message) { _ = c.Send(msg.Data(), nil) }}, cfg)
	msg := make([]byte, size)
	round := func() {
		if err := p.dialed.Send(msg, nil); err != nil {
			t.Fatal(err)
		}
		for want := echoes + 1; echoes < want; {
			_, _ = p.client.RunOnce(0)
			_, _ = p.server.RunOnce(0)
		}
	}
	for range 1000 {
		round() // slices and slabs still grow in the first rounds
	}
	require.Zero(t, testing.AllocsPerRun(2000, round))
}

// TestBaseHandler checks that a server with BaseHandler accepts connections and receives
// messages.
func TestBaseHandler(t *testing.T) {
	cfg := &reactor.Config{Transport: reactor.Transport{AckTimeout: verbs.AckTimeout(14), MaxInline: -1}, MaxConns: 3}
	server := start(t, reactor.BaseHandler{}, cfg)
	d := &reactor.DialOptions{UserData: 1}
	closed := make(chan error, 1)
	client := start(t, &hooks{
		open: func(c *reactor.Conn) {
			assert.Same(t, d, c.Info().DialOptions)
			assert.Equal(t, 1, c.UserData)
			c.UserData = 2
			assert.Equal(t, 2, c.UserData)
			assert.Equal(t, 63, c.Info().MaxInFlight)
			assert.False(t, c.Loop().Now().IsZero())
			assert.NoError(t, c.Send([]byte("ignored"), &reactor.OpOptions{Solicited: true, Fence: true}))
			assert.NoError(t, c.Close())
		},
		close: func(_ *reactor.Conn, err error) { closed <- err },
	}, cfg)
	require.NoError(t, client.Dial(listen(t, server), d))
	require.NoError(t, receive(t, closed))
}
