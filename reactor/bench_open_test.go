package reactor_test

import (
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// BenchmarkOpen measures both sides' work to open a connection, exchange two messages,
// and close the connection.
func BenchmarkOpen(b *testing.B) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		b.Run(path.String(), func(b *testing.B) {
			open := newOpener(b, path)
			b.ReportAllocs()
			for b.Loop() {
				open()
			}
		})
	}
}

// TestOpenAllocations limits the allocations of both sides for one connection.
func TestOpenAllocations(t *testing.T) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t.Run(path.String(), func(t *testing.T) {
			open := newOpener(t, path)
			// Goroutines of other tests only add allocations, and so does a connection whose
			// predecessor still has its place in the map of queue pairs.
			least := math.Inf(1)
			for range 100 {
				least = min(least, testing.AllocsPerRun(1, open))
			}
			require.LessOrEqual(t, least, float64(maxOpenAllocations))
		})
	}
}

// newOpener makes two loops on devices of their own. It returns a function that opens a
// connection between them, exchanges two messages, and closes the connection.
func newOpener(t testing.TB, path soft.Path) (open func()) {
	answered, closed := false, 0
	done := func(*reactor.Conn, error) { closed++ }
	port, at := uint16(0), netip.MustParseAddrPort("127.0.0.1:0")
	if path == soft.PathWire {
		port, at = freeport.UDP(t), netip.MustParseAddrPort("127.0.0.2:0")
	}
	server := pathLoop(t, path, port, &hooks{close: done, message: echo(t)}, nil)
	client := pathLoop(t, path, port, &hooks{close: done,
		open:    func(c *reactor.Conn) { _ = c.Send(make([]byte, 64), nil) },
		message: func(c *reactor.Conn, _ reactor.Message) { answered = true; _ = c.Close() },
	}, nil)
	ln, err := server.Engine().Listen(at, nil)
	require.NoError(t, err)
	return func() {
		answered, closed = false, 0
		require.NoError(t, client.Engine().Dial(ln.Addr(), nil))
		for !answered || closed < 2 {
			_, _ = client.RunOnce(0)
			_, _ = server.RunOnce(0)
		}
	}
}
