//go:build linux

package qptest

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A testWindow is a memory window and the region that it is bound to.
type testWindow struct {
	verbs.MW
	Mr verbs.MR
}

// NewWindow returns a window that is not bound yet, and a region that peers on this host
// can map.
func NewWindow(e *End) *testWindow {
	e.T.Helper()
	mr, err := e.PD.Alloc(&verbs.AllocAttr{Size: EndSize, Access: verbs.AccessAll | verbs.AccessMWBind})
	require.NoError(e.T, err)
	w, err := e.PD.AllocMW()
	require.NoError(e.T, err)
	e.T.Cleanup(func() {
		require.NoError(e.T, w.Close())
		require.NoError(e.T, mr.Close())
	})
	return &testWindow{w, mr}
}

// Bind returns a signaled request that binds the window to the first 4096 bytes of the
// region.
func (w *testWindow) Bind(id uint64) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, RKey: verbs.IncRKey(w.RKey()),
		Bind: &verbs.MWBind{MW: w.MW, MR: w.Mr, Addr: w.Mr.Addr(), Length: 4096, Access: verbs.AccessRemoteRead}}
}

// A mappedFile is a region. Its memory is a mapped file with two pages.
type mappedFile struct {
	verbs.MR
	file *os.File
	page int
}

// registerFile registers a new mappedFile in the PD of e.
func registerFile(t testing.TB, e *End) *mappedFile {
	page := os.Getpagesize()
	file, err := os.Create(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	require.NoError(t, file.Truncate(int64(2*page)))
	b, err := unix.Mmap(int(file.Fd()), 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	mr, err := e.PD.RegisterFaulting(b, verbs.AccessAll)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, mr.Close())
		require.NoError(t, unix.Munmap(b))
		require.NoError(t, file.Close())
	})
	return &mappedFile{mr, file, page}
}

// missing returns an SGE of 8 bytes in the second page.
func (m *mappedFile) missing() []verbs.SGE { return []verbs.SGE{verbs.SGEOf(m, m.page+64, 8)} }

// remote makes the second page the remote memory of a work request.
func (m *mappedFile) remote(wr verbs.SendWR) verbs.SendWR {
	wr.RemoteAddr, wr.RKey = m.Addr()+uint64(m.page)+64, m.RKey()
	return wr
}

// A faultCase is a request that uses the second page of a file.
type faultCase struct {
	// request returns a request for the queue pair of a. The parameter own is a file that
	// a has registered, and the parameter peers is a file that b has registered.
	request     func(a, b *End, own, peers *mappedFile) verbs.SendWR
	status      verbs.Status // expected status of the request
	recvsToFile bool         // true if the receive buffer of b is in the file peers
}

var faultCases = map[string]faultCase{
	"READ of the file": {func(a, _ *End, _, peers *mappedFile) verbs.SendWR {
		return peers.remote(verbs.SendWR{Opcode: verbs.OpRead, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
	}, verbs.StatusRemOpErr, false},
	"WRITE to the file": {func(a, _ *End, _, peers *mappedFile) verbs.SendWR {
		return peers.remote(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
	}, verbs.StatusRemOpErr, false},
	"WRITE with immediate to the file": {func(a, _ *End, _, peers *mappedFile) verbs.SendWR {
		return peers.remote(verbs.SendWR{Opcode: verbs.OpWriteImm, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
	}, verbs.StatusRemOpErr, false},
	"fetch-and-add in the file": {func(a, _ *End, _, peers *mappedFile) verbs.SendWR {
		return peers.remote(verbs.SendWR{Opcode: verbs.OpFetchAdd, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
	}, verbs.StatusRemOpErr, false},
	"compare-and-swap in the file": {func(a, _ *End, _, peers *mappedFile) verbs.SendWR {
		return peers.remote(verbs.SendWR{Opcode: verbs.OpCompareSwap, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}})
	}, verbs.StatusRemOpErr, false},
	"READ into the file": {func(_, b *End, own, _ *mappedFile) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpRead, SGEs: own.missing(), RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}
	}, verbs.StatusLocProtErr, false},
	"fetch-and-add into the file": {func(_, b *End, own, _ *mappedFile) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpFetchAdd, SGEs: own.missing(), RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}
	}, verbs.StatusLocProtErr, false},
	"WRITE from the file": {func(_, b *End, own, _ *mappedFile) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpWrite, SGEs: own.missing(), RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}
	}, verbs.StatusLocProtErr, false},
	"SEND from the file": {func(_, _ *End, own, _ *mappedFile) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpSend, SGEs: own.missing()}
	}, verbs.StatusLocProtErr, false},
	"SEND into the file": {func(a, _ *End, _, _ *mappedFile) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 8)}}
	}, verbs.StatusRemOpErr, true},
}

// run checks the request, with a complete file and with a missing page. The function
// turn() delivers queued packets.
func (c *faultCase) run(t testing.TB, a, b *End, turn func()) {
	own, peers := registerFile(t, a), registerFile(t, b)
	post := func() verbs.WC {
		recv := []verbs.SGE{verbs.SGEOf(b.MR, 0, 64)}
		if c.recvsToFile {
			recv = peers.missing()
		}
		_, err := b.QP.PostRecv([]verbs.RecvWR{{SGEs: recv}})
		require.NoError(t, err)
		wr := c.request(a, b, own, peers)
		wr.Flags |= verbs.SendSignaled
		a.Post(wr)
		for range PollLimit {
			turn()
			_, err := b.CQ.Poll(b.WC)
			require.NoError(t, err)
			if n, _ := a.CQ.Poll(a.WC); n > 0 {
				return a.WC[0]
			}
		}
		require.FailNow(t, "the request has not completed")
		return verbs.WC{}
	}
	require.Equal(t, verbs.StatusSuccess, post().Status, "the file is complete")
	require.NoError(t, own.file.Truncate(int64(own.page)))
	require.NoError(t, peers.file.Truncate(int64(own.page)))
	require.Equal(t, c.status, post().Status, "the page is missing")
	require.False(t, debug.SetPanicOnFault(false), "the setting is restored")
}

// TestTruncatedFile checks that requests fail if they use a page that the file has lost.
func TestTruncatedFile(t *testing.T, pair func(t *testing.T) (a, b *End, turn func())) {
	for name, c := range faultCases {
		t.Run(name, func(t *testing.T) {
			a, b, turn := pair(t)
			c.run(t, a, b, turn)
		})
	}
}
