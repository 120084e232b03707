//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
)

// peerNoDescriptors runs in a process without free descriptors. It calls OnReady of a
// listener that has no client waiting.
func peerNoDescriptors(t *testing.T, _ string) {
	s := newParty(t)
	s.Listen(cm.TCP, "127.0.0.1:0", 0)
	peerproc.ExhaustDescriptors(t)
	requireSpare(t, s)
	looked := 0
	for _, w := range handlersOf(s.TC) {
		if g, ok := w.(*unixListener); ok {
			g.OnReady(g.fd, unix.EPOLLIN)
			looked++
		}
	}
	require.Equal(t, 1, looked)
	requireSpare(t, s)
	peerproc.Say("done")
	peerproc.Linger()
}

// If no descriptor is free, the process closes its spare descriptors to accept a client.
// OnReady opens them again when no other client waits.
func TestSpareDescriptorsAreOpenedAgain(t *testing.T) {
	line, kill := peerproc.Start(t, "no-descriptors", "")
	require.Equal(t, "done", line())
	kill()
}

// requireSpare requires that this process has no free descriptor, and that all spare
// descriptors of the party are open.
func requireSpare(t *testing.T, s *party) {
	t.Helper()
	_, err := fdevent.NewEvent()
	require.ErrorIs(t, err, unix.EMFILE)
	require.True(t, s.unix.Spare.Fill())
}
