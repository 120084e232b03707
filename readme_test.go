package rdmaloop_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestReadmeServer checks that the server in README.md answers every message of a client
// that sends whatever its send queue takes.
func TestReadmeServer(t *testing.T) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t.Run(path.String(), func(t *testing.T) {
			device, err := soft.Open(&soft.Config{Path: path, WirePort: freeport.UDP(t)})
			require.NoError(t, err)
			engine, err := reactor.New(device, echo{}, nil)
			require.NoError(t, err)
			require.NoError(t, engine.Start())
			listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
			require.NoError(t, err)
			client := &flooder{left: 10_000, unanswered: 10_000, end: make(chan int, 1)}
			require.NoError(t, engine.Dial(listener.Addr(), &reactor.DialOptions{Handler: client}))
			require.Zero(t, <-client.end, "messages without an answer")
			require.NoError(t, engine.Shutdown(t.Context()))
			require.NoError(t, device.Close())
		})
	}
}

// A flooder sends as fast as it can, and closes its connection after the last answer.
type flooder struct {
	reactor.BaseHandler
	left, unanswered int
	end              chan int // gets the number of messages without an answer
}

func (f *flooder) OnOpen(c *reactor.Conn) { f.OnWritable(c) }

func (f *flooder) OnWritable(c *reactor.Conn) {
	for f.left > 0 && c.Send([]byte("ping"), nil) == nil {
		f.left--
	}
}

func (f *flooder) OnMessage(c *reactor.Conn, _ reactor.Message) {
	if f.unanswered--; f.unanswered == 0 {
		c.Close()
	}
}

func (f *flooder) OnClose(*reactor.Conn, error) { f.end <- f.unanswered }

func (f *flooder) OnDialError(*reactor.Loop, netip.AddrPort, *reactor.DialOptions, error) {
	f.end <- f.unanswered
}
