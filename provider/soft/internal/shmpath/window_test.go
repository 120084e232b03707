//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A peer that knows the key of a region maps the region. It maps nothing for the key of
// a window, because the mapping would contain the whole region.
func TestWindowIsNotMapped(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	w := qptest.NewWindow(b)
	b.Post(w.Bind(1))
	require.Equal(t, verbs.WC{ID: 1, Opcode: verbs.WCBindMW, QPN: b.QP.Num()}, b.Wait(1, a)[0])
	read := a.Remote(verbs.OpRead, b, 8)
	read.RemoteAddr, read.RKey = w.Mr.Addr(), w.RKey()
	for range 5 {
		a.RequireSent(b, read, verbs.StatusSuccess)
	}
	require.Equal(t, regionRefused, connOf(a).p.regions.find(w.RKey()).state)

	read.RKey = w.Mr.RKey()
	a.RequireSent(b, read, verbs.StatusSuccess)
	a.PollN(1)
	b.PollN(1)
	a.RequireDirect(read)
	read.RKey = w.RKey()
	a.RequireSent(b, read, verbs.StatusSuccess)
	read.RemoteAddr += 4096
	a.RequireSent(b, read, verbs.StatusRemAccessErr)
}

// RESET unbinds the windows of a queue pair, so that its next peer can not use them.
func TestResetUnbindsWindows(t *testing.T) {
	a, _ := newLocalPair(t, memoryConfig{})
	w := qptest.NewWindow(a)
	a.Post(w.Bind(1))
	require.Len(t, a.PollN(1), 1)
	require.ErrorIs(t, w.Mr.Close(), verbs.ErrBusy)
	require.NoError(t, a.QP.Modify(&verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState))
	require.NoError(t, w.Mr.Close())
}
