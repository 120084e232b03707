package gnet_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/gnet/shout"
	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// TestMains checks that the two programs differ in at most three lines.
func TestMains(t *testing.T) {
	lines := func(name string) []string {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		return strings.Split(string(source), "\n")
	}
	tcp, rdma := lines("tcp/main.go"), lines("rdma/main.go")
	require.Len(t, rdma, len(tcp))
	differ := 0
	for i := range tcp {
		if tcp[i] != rdma[i] {
			differ++
		}
	}
	require.LessOrEqual(t, differ, 3)
}

// handler tells the test when the engine runs.
type handler struct {
	shout.Handler
	booted chan gnet.Engine
}

func (h *handler) OnBoot(e gnet.Engine) gnet.Action {
	h.booted <- e
	return gnet.None
}

// freeAddr returns an address that no program uses.
func freeAddr(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// TestServe checks the handler over both networks at once.
func TestServe(t *testing.T) {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	network, err := stream.New(device, nil)
	require.NoError(t, err)
	h := &handler{booted: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	addr := freeAddr(t)
	go func() {
		ended <- gnetrdma.Rotate(h, []string{"tcp://" + addr, "rdma://" + addr})
	}()
	engine := <-h.booted
	for _, dial := range []func(network, address string) (net.Conn, error){net.Dial, network.Dial} {
		c, err := dial("tcp", addr)
		require.NoError(t, err)
		const text = "one\ntwo\n\nthree"
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
		_, err = io.WriteString(c, " and four\n")
		require.NoError(t, err)
		r := bufio.NewReader(c)
		for _, want := range []string{"ONE\n", "TWO\n", "\n", "THREE AND FOUR\n"} {
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
		require.NoError(t, c.Close())
	}
	require.NoError(t, engine.Stop(context.Background()))
	require.NoError(t, <-ended)
	require.NoError(t, network.Close())
	require.NoError(t, device.Close())
}
