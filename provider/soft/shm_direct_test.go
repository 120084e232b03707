//go:build linux

package soft

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newDirectPair makes two connected ends. The first end has mapped the memory of the
// second end.
func newDirectPair(t testing.TB, cfg memoryConfig) (a, b *end) {
	a, b = newLocalPair(t, cfg)
	a.share(b)
	return a, b
}

// The requester executes READs, WRITEs and atomics while the peer does nothing.
func TestDirectOperations(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	copy(a.mr.Bytes(), "written")
	a.requireDirect(a.remote(verbs.OpWrite, b, 7))
	require.Equal(t, "written", string(b.mr.Bytes()[:7]))

	copy(b.mr.Bytes(), "changed")
	a.requireDirect(a.remote(verbs.OpRead, b, 7))
	require.Equal(t, "changed", string(a.mr.Bytes()[:7]))

	wr := a.remote(verbs.OpFetchAdd, b, 8)
	wr.RemoteAddr, wr.CompareAdd = b.mr.Addr()+64, 5
	word := func(e *end, at int) uint64 { return binary.NativeEndian.Uint64(e.mr.Bytes()[at:]) }
	binary.NativeEndian.PutUint64(b.mr.Bytes()[64:], 10)
	a.requireDirect(wr)
	require.EqualValues(t, []uint64{10, 15}, []uint64{word(a, 0), word(b, 64)})

	wr.Opcode, wr.CompareAdd, wr.Swap = verbs.OpCompareSwap, 15, 1000
	a.requireDirect(wr)
	require.EqualValues(t, []uint64{15, 1000}, []uint64{word(a, 0), word(b, 64)})
	a.requireDirect(wr)
	require.EqualValues(t, []uint64{1000, 1000}, []uint64{word(a, 0), word(b, 64)}, "the operand differs")

	wr = verbs.SendWR{ID: 7, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte("inline"),
		RemoteAddr: b.mr.Addr() + endSize - 6, RKey: b.mr.RKey()}
	a.requireDirect(wr)
	require.Equal(t, "inline", string(b.mr.Bytes()[endSize-6:]))
}

// In these cases a request is sent to the responder, although the requester has mapped
// the memory.
func TestNotDirect(t *testing.T) {
	for name, test := range map[string]struct {
		change func(wr *verbs.SendWR, b *end)
		want   verbs.Status
	}{
		"no data":              {func(wr *verbs.SendWR, _ *end) { wr.SGEs = nil }, verbs.StatusSuccess},
		"long data":            {func(wr *verbs.SendWR, _ *end) { wr.SGEs[0].Length = maxDirect + 1 }, verbs.StatusSuccess},
		"end out of bounds":    {func(wr *verbs.SendWR, _ *end) { wr.RemoteAddr += endSize - 7 }, verbs.StatusRemAccessErr},
		"begin out of bounds":  {func(wr *verbs.SendWR, _ *end) { wr.RemoteAddr-- }, verbs.StatusRemAccessErr},
		"unknown key":          {func(wr *verbs.SendWR, _ *end) { wr.RKey++ }, verbs.StatusRemAccessErr},
		"unaligned atomic":     {func(wr *verbs.SendWR, _ *end) { wr.Opcode, wr.RemoteAddr = verbs.OpFetchAdd, wr.RemoteAddr+4 }, verbs.StatusRemInvReqErr},
		"immediate data":       {func(wr *verbs.SendWR, b *end) { wr.Opcode = verbs.OpWriteImm; b.recv(1, 0, 0) }, verbs.StatusSuccess},
		"region closed":        {func(_ *verbs.SendWR, b *end) { b.reopenMR() }, verbs.StatusRemAccessErr},
		"queue pair in error":  {func(_ *verbs.SendWR, b *end) { b.fail() }, verbs.StatusRetryExcErr},
		"local memory missing": {func(wr *verbs.SendWR, _ *end) { wr.SGEs[0].LKey++ }, verbs.StatusLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newDirectPair(t, memoryConfig{})
			copy(a.mr.Bytes(), "12345678")
			old := b.mr
			wr := a.remote(verbs.OpWrite, b, 8)
			test.change(&wr, b)
			a.post(wr)
			if test.want != verbs.StatusLocProtErr {
				require.Empty(t, a.pollN(100))
			}
			if test.want == verbs.StatusRetryExcErr {
				require.Zero(t, old.Bytes()[0])
				return
			}
			require.Equal(t, test.want, a.waitStatus(b))
		})
	}
}

// A WRITE does not overtake a SEND that the peer has not executed yet, or has refused.
func TestDirectKeepsOrder(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	copy(a.mr.Bytes(), "x")
	a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	a.post(a.remote(verbs.OpWrite, b, 1))
	require.Empty(t, a.pollN(100), "the SEND was not executed")
	require.Zero(t, b.mr.Bytes()[0])
	b.pollN(1)
	require.Empty(t, a.pollN(100), "the SEND was refused")
	require.Zero(t, b.mr.Bytes()[0])
	b.recv(1, 8, 8)
	require.Equal(t, verbs.StatusSuccess, a.waitStatus(b))
	require.EqualValues(t, 'x', b.mr.Bytes()[0])

	b.recv(2, 8, 8)
	a.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	b.pollN(2)
	a.requireDirect(a.remote(verbs.OpWrite, b, 1))
}

// A peer learns at once that a queue pair has stopped, even if the ring has no room for
// the notice.
func TestDirectStopsWithFullRing(t *testing.T) {
	const slots = 8
	a, b := newDirectPair(t, memoryConfig{slots: slots})
	for range slots {
		b.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	}
	b.fail()
	copy(a.mr.Bytes(), "x")
	a.post(a.remote(verbs.OpWrite, b, 1))
	require.Zero(t, b.mr.Bytes()[0])
}

// Modify changes what the peer may execute itself.
func TestDirectRights(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	setAccess := func(access verbs.Access) {
		require.NoError(t, b.qp.Modify(&verbs.QPAttr{State: verbs.StateRTS, Access: access}, verbs.AttrState|verbs.AttrAccess))
	}
	setAccess(verbs.AccessRemoteWrite)
	a.pollN(1)
	a.requireDirect(a.remote(verbs.OpWrite, b, 8))
	a.post(a.remote(verbs.OpRead, b, 8))
	require.Empty(t, a.pollN(100))
	setAccess(verbs.AccessAll)
	require.Equal(t, verbs.StatusSuccess, a.waitStatus(b))
	a.requireDirect(a.remote(verbs.OpRead, b, 8))
}

// A region without remote write access is sealed against writing.
func TestDirectReadOnly(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	require.NoError(t, b.mr.Close())
	var err error
	b.mr, err = b.pd.Alloc(&verbs.AllocAttr{Size: 100, Access: verbs.AccessRemoteRead | verbs.AccessLocalWrite})
	require.NoError(t, err)
	read := a.remote(verbs.OpRead, b, 100)
	a.requireSent(b, read, verbs.StatusSuccess)
	copy(b.mr.Bytes(), "still writable for its owner")
	a.requireDirect(read)
	require.Equal(t, "still", string(a.mr.Bytes()[:5]))
	a.requireSent(b, a.remote(verbs.OpWrite, b, 8), verbs.StatusRemAccessErr)
}

// A region is private in three cases: if its memory was passed to Register, if
// Config.PrivateRegions is set, and if the process has too many descriptors.
func TestPrivateRegions(t *testing.T) {
	private := func(t *testing.T, a, b *end) {
		for range 3 {
			a.requireSent(b, a.remote(verbs.OpWrite, b, 8), verbs.StatusSuccess)
		}
	}
	t.Run("setting", func(t *testing.T) {
		a, b := newLocalPair(t, memoryConfig{private: true})
		private(t, a, b)
	})
	t.Run("setting of the owner", func(t *testing.T) {
		a, b := newLocalPair(t, memoryConfig{})
		connOf(b).p.sharesRegions = false
		private(t, a, b)
	})
	t.Run("registered", func(t *testing.T) {
		a, b := newLocalPair(t, memoryConfig{})
		require.NoError(t, b.mr.Close())
		var err error
		b.mr, err = b.pd.Register(make([]byte, 100), verbs.AccessAll)
		require.NoError(t, err)
		private(t, a, b)
	})
	t.Run("limit", func(t *testing.T) {
		b, a := newLocalPair(t, memoryConfig{regions: shm.NewRegionLimit(1)})
		a.share(b)
		a.requireDirect(a.remote(verbs.OpWrite, b, 8))
		private(t, b, a)
	})
}

// A region that was closed, or is no longer used, is unmapped. The next request asks for
// the region again.
func TestSweepRegions(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	regions := &connOf(a).p.regions
	regions.sweep()
	require.Len(t, regions.byKey, 1, "the region was used")
	a.requireDirect(a.remote(verbs.OpWrite, b, 8))
	key := b.mr.RKey()
	b.reopenMR()
	regions.sweep()
	require.Empty(t, regions.byKey)
	require.Nil(t, regions.find(key))

	a.share(b)
	a.requireDirect(a.remote(verbs.OpWrite, b, 8))
	regions.sweep()
	regions.sweep()
	require.Empty(t, regions.byKey, "the region was not used")
	a.share(b)
	a.requireDirect(a.remote(verbs.OpWrite, b, 8))
}

// A hostile peer sends answers that nobody has asked for, and answers with no descriptor
// or a wrong one. They do no harm.
func TestHostileRegionAnswers(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	doorbell := connOf(b).p.end.Doorbell
	answer := func(key uint32, passed uint64) {
		publish(b, fragment.Fragment{Op: shm.Shared, Imm: key, Addr: passed})
		a.pollN(1)
	}
	answer(1, 0)
	answer(1, 1)
	answer(b.mr.RKey(), 1)
	require.True(t, b.qp.passRegion(b.mr.RKey(), doorbell))
	answer(1, 1)
	regions := &connOf(a).p.regions
	require.Empty(t, regions.byKey)

	require.True(t, regions.add(1))
	require.True(t, b.qp.passRegion(b.mr.RKey(), doorbell))
	answer(1, 1)
	require.Equal(t, regionRefused, regions.find(1).state, "the region has another key")
	answer(1, 1)
	require.Zero(t, regions.asked)
}

// A peer can not get a descriptor for a key that no request has named.
func TestShareNeedsARequest(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	share := func() bool {
		publish(a, fragment.Fragment{Op: shm.Share, Imm: b.mr.RKey()})
		b.pollN(1)
		fd, ok := shm.ReceiveDescriptor(connOf(a).p.end.Doorbell)
		if ok {
			require.NoError(t, unix.Close(fd))
		}
		return ok
	}
	require.False(t, share())
	write := verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	a.post(write)
	require.Equal(t, verbs.StatusSuccess, a.waitStatus(b))
	require.False(t, share(), "the key of a request without data is not checked")
	connOf(a).asks = false
	a.post(a.remote(verbs.OpRead, b, 8))
	require.Equal(t, verbs.StatusSuccess, a.waitStatus(b))
	require.True(t, share())
}

// A shard remembers a bounded number of regions.
func TestRemoteRegionLimit(t *testing.T) {
	a, _ := newLocalPair(t, memoryConfig{})
	regions := &connOf(a).p.regions
	for key := range uint32(maxRemoteRegions) {
		require.True(t, regions.add(key+1))
	}
	require.False(t, regions.add(maxRemoteRegions+1))
	regions.sweep()
	regions.sweep()
	require.Zero(t, regions.asked)
	require.Empty(t, regions.byKey)
}

func TestDirectAllocations(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	wrs := []verbs.SendWR{a.remote(verbs.OpWrite, b, 64), a.remote(verbs.OpRead, b, 64), a.remote(verbs.OpFetchAdd, b, 8)}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = a.qp.PostSend(wrs)
		_, _ = a.cq.Poll(a.wc)
	}))
}
