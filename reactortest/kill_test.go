//go:build linux

package reactortest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestKillRepeats checks that a process which has several connections to another one ends
// them in the same order in each run.
func TestKillRepeats(t *testing.T) {
	digest := func() (d uint64) {
		reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
			h := w.Host("host")
			server := h.Process("server")
			_, err := server.Start(echo{}, nil).Listen(h.AddrPort(1), nil)
			require.NoError(t, err)
			e := h.Process("client").Start(reactor.BaseHandler{}, nil)
			var conns []*reactortest.Conn
			for range 10 {
				conns = append(conns, w.Dial(e, h.AddrPort(1), nil))
			}
			server.Kill()
			for _, c := range conns {
				c.WantClose(verbs.ErrPeerGone)
			}
			d = w.Digest()
		})
		return d
	}
	want := digest()
	for range 5 {
		require.Equal(t, want, digest())
	}
}
