//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A peer that knows the key of a region maps the region. It maps nothing for the key of
// a window, because the mapping would contain the whole region.
func TestWindowIsNotMapped(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	w := newWindow(b)
	b.post(w.bind(1))
	require.Equal(t, verbs.WC{ID: 1, Opcode: verbs.WCBindMW, QPN: b.qp.Num()}, b.wait(1, a)[0])
	read := a.remote(verbs.OpRead, b, 8)
	read.RemoteAddr, read.RKey = w.mr.Addr(), w.RKey()
	for range 5 {
		a.requireSent(b, read, verbs.StatusSuccess)
	}
	require.Equal(t, regionRefused, connOf(a).p.regions.find(w.RKey()).state)

	read.RKey = w.mr.RKey()
	a.requireSent(b, read, verbs.StatusSuccess)
	a.pollN(1)
	b.pollN(1)
	a.requireDirect(read)
	read.RKey = w.RKey()
	a.requireSent(b, read, verbs.StatusSuccess)
	read.RemoteAddr += 4096
	a.requireSent(b, read, verbs.StatusRemAccessErr)
}

// RESET unbinds the windows of a queue pair, so that its next peer can not use them.
func TestResetUnbindsWindows(t *testing.T) {
	a, _ := newLocalPair(t, memoryConfig{})
	w := newWindow(a)
	a.post(w.bind(1))
	require.Len(t, a.pollN(1), 1)
	require.ErrorIs(t, w.mr.Close(), verbs.ErrBusy)
	require.NoError(t, a.qp.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	require.NoError(t, w.mr.Close())
}
