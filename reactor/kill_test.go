package reactor_test

import (
	"net/netip"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// killedConns is the number of connections of the killed process.
const killedConns = 4

// killedProcess is the process that TestPeerIsKilled kills. It sends messages until
// then.
func killedProcess(addr string) {
	p, err := soft.Open(nil)
	if err != nil {
		panic(err)
	}
	pump := func(c *reactor.Conn) {
		for c.Send([]byte("stream"), nil) == nil {
		}
	}
	engine, err := reactor.New(p, &hooks{open: pump, writable: pump}, nil)
	if err != nil {
		panic(err)
	}
	if err := engine.Start(); err != nil {
		panic(err)
	}
	for range killedConns {
		if err := engine.Dial(netip.MustParseAddrPort(addr), nil); err != nil {
			panic(err)
		}
	}
	panic(engine.Wait())
}

// TestPeerIsKilled kills the peer's process while both sides send. Every operation must
// be reported, and nothing may leak.
func TestPeerIsKilled(t *testing.T) {
	defer leak.Snapshot().Check(t)
	t.Run("killed", func(t *testing.T) {
		ends := make(chan error, 2*killedConns)
		var streaming, accepted, ended atomic.Int64
		send := func(c *reactor.Conn) {
			for c.Send([]byte("answer"), &reactor.OpOptions{Notify: true}) == nil {
				accepted.Add(1)
			}
		}
		server := start(t, &hooks{
			open:       send,
			writable:   send,
			message:    func(c *reactor.Conn, _ reactor.Message) { streaming.Add(1) },
			completion: func(*reactor.Conn, reactor.Op, error) { ended.Add(1) },
			close: func(c *reactor.Conn, err error) {
				s := c.Stats()
				assert.Equal(t, s.Accepted, s.Confirmed+s.Failed)
				ends <- err
			},
		}, nil)
		cmd := exec.Command(os.Args[0], "-killed-process", listen(t, server).String())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		await(t, func() bool { return streaming.Load() > 1000 })
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		for range killedConns {
			require.Error(t, receive(t, ends))
		}
		shutdown(t, server)
		require.Empty(t, ends, "OnClose is called once for each connection")
		require.Equal(t, accepted.Load(), ended.Load())
	})
}
