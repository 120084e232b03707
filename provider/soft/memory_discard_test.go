//go:build linux

package soft_test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// present returns which pages of mr are in memory: those with bit 63 in
// /proc/self/pagemap (proc_pid_pagemap(5)).
func present(t *testing.T, mr verbs.MR) (pages []bool) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer f.Close()
	page := os.Getpagesize()
	entries := make([]byte, 8*((len(mr.Bytes())+page-1)/page))
	_, err = f.ReadAt(entries, int64(mr.Addr())/int64(page)*8)
	require.NoError(t, err)
	for ; len(entries) > 0; entries = entries[8:] {
		pages = append(pages, binary.NativeEndian.Uint64(entries)>>63 == 1)
	}
	return pages
}

func TestDiscard(t *testing.T) {
	p, err := soft.Open(nil)
	require.NoError(t, err)
	defer p.Close()
	devices, err := p.Devices()
	require.NoError(t, err)
	pd, err := devices[0].AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	page := os.Getpagesize()
	mr, err := pd.Alloc(&verbs.AllocAttr{Size: 6 * page, Access: verbs.AccessLocalWrite})
	require.NoError(t, err)
	defer mr.Close()
	for i := range mr.Bytes() {
		mr.Bytes()[i] = 1
	}
	require.Equal(t, []bool{true, true, true, true, true, true}, present(t, mr))

	require.NoError(t, mr.Discard(page-1, 3*page))
	require.Equal(t, []bool{true, false, false, true, true, true}, present(t, mr), "only whole pages are discarded")
	require.NoError(t, mr.Discard(4*page+1, page))
	require.NoError(t, mr.Discard(6*page, 0))
	require.Equal(t, []bool{true, false, false, true, true, true}, present(t, mr))
	require.EqualValues(t, 1, mr.Bytes()[3*page-1+page])
	require.Zero(t, mr.Bytes()[2*page], "discarded memory is zero and usable")
	mr.Bytes()[2*page] = 2
	require.True(t, present(t, mr)[2])

	for _, c := range [][2]int{{-1, 1}, {0, -1}, {0, 6*page + 1}, {6*page + 1, 0}, {page, 6 * page}} {
		var param *verbs.ParamError
		require.ErrorAs(t, mr.Discard(c[0], c[1]), &param, "%v", c)
	}
	require.NoError(t, mr.Close())
	require.ErrorIs(t, mr.Discard(0, page), verbs.ErrClosed)
}

// Discard fails for memory that the caller has registered, because other code may use
// it.
func TestDiscardRegistered(t *testing.T) {
	p, err := soft.Open(nil)
	require.NoError(t, err)
	defer p.Close()
	devices, err := p.Devices()
	require.NoError(t, err)
	pd, err := devices[0].AllocPD()
	require.NoError(t, err)
	defer pd.Close()
	mr, err := pd.Register(make([]byte, 1<<16), verbs.AccessLocalWrite)
	require.NoError(t, err)
	defer mr.Close()
	mr.Bytes()[1<<15] = 1
	require.ErrorIs(t, mr.Discard(0, 1<<16), verbs.ErrNotSupported)
	require.EqualValues(t, 1, mr.Bytes()[1<<15])
}
