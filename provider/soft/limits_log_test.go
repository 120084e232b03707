//go:build linux

package soft_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestLimitsAreLogged checks that a device logs what it refuses because of a limit, but not
// once for each refusal when a peer meets the limit again and again.
func TestLimitsAreLogged(t *testing.T) {
	const dials = 100
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var log bytes.Buffer
		h := w.Host("host")
		p := h.Process("server")
		device := p.Open(&soft.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		server, err := reactor.New(device, reactor.BaseHandler{}, nil)
		require.NoError(t, err)
		require.NoError(t, server.Start())
		_, err = server.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		w.For(time.Second)
		p.SetNoDescriptors(true)
		client := h.Process("client").Start(silent{}, nil)
		for range dials {
			require.NoError(t, client.Dial(h.AddrPort(1), nil))
		}
		w.Until(time.Minute, func() bool { return client.Stats().DialErrors == dials })
		p.SetNoDescriptors(false)
		require.GreaterOrEqual(t, count(t, device, "no_descriptors_err"), uint64(dials))
		require.Equal(t, 10, strings.Count(log.String(), "\n"), log.String())
		require.Equal(t, 10, strings.Count(log.String(), "ulimit -n"))
		require.Equal(t, 10, strings.Count(log.String(), "counter=no_descriptors_err"))
		require.NoError(t, server.Shutdown(t.Context()))
	})
}

// silent is a Handler that does not log its failed dials.
type silent struct{ reactor.BaseHandler }

func (silent) OnDialError(*reactor.Loop, netip.AddrPort, *reactor.DialOptions, error) {}

// count returns a counter of the only device of a provider.
func count(t *testing.T, p verbs.Provider, name string) uint64 {
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
