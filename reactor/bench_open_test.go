package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// BenchmarkOpen measures both sides' work to open a connection, exchange two messages,
// and close the connection.
func BenchmarkOpen(b *testing.B) {
	b.Run("local", func(b *testing.B) { benchmarkOpen(b, soft.PathLocal, 0) })
	b.Run("wire", func(b *testing.B) { benchmarkOpen(b, soft.PathWire, freeWirePort(b)) })
}

func benchmarkOpen(b *testing.B, path soft.Path, wirePort uint16) {
	answered, closed := false, 0
	done := func(*reactor.Conn, error) { closed++ }
	server := openLoop(b, path, wirePort, &hooks{close: done, message: func(c *reactor.Conn, msg reactor.Message) { _ = c.Send(msg.Data()) }})
	client := openLoop(b, path, wirePort, &hooks{close: done,
		open:    func(c *reactor.Conn) { _ = c.Send(make([]byte, 64)) },
		message: func(c *reactor.Conn, _ reactor.Message) { answered = true; c.Close() },
	})
	at := "127.0.0.1:0"
	if path == soft.PathWire {
		at = "127.0.0.2:0"
	}
	ln, err := server.Engine().Listen(netip.MustParseAddrPort(at), nil)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		answered, closed = false, 0
		_ = client.Dial(ln.Addr(), nil)
		for !answered || closed < 2 {
			_, _ = client.RunOnce(0)
			_, _ = server.RunOnce(0)
		}
	}
}

// openLoop makes an embedded loop with a device of its own.
func openLoop(b *testing.B, path soft.Path, wirePort uint16, h reactor.Handler) *reactor.Loop {
	p, err := soft.Open(&soft.Config{Vectors: 1, Path: path, WirePort: wirePort})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
	l, err := reactor.NewLoop(p, h, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, l.Close()) })
	return l
}
