//go:build linux

package shmpath

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newDirectPair makes two connected ends. The first end has mapped the memory of the
// second end.
func newDirectPair(t testing.TB, cfg memoryConfig) (a, b *qptest.End) {
	a, b = newLocalPair(t, cfg)
	a.Share(b)
	return a, b
}

// The requester executes READs, WRITEs and atomics while the peer does nothing.
func TestDirectOperations(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	copy(a.MR.Bytes(), "written")
	a.RequireDirect(a.Remote(verbs.OpWrite, b, 7))
	require.Equal(t, "written", string(b.MR.Bytes()[:7]))

	copy(b.MR.Bytes(), "changed")
	a.RequireDirect(a.Remote(verbs.OpRead, b, 7))
	require.Equal(t, "changed", string(a.MR.Bytes()[:7]))

	wr := a.Remote(verbs.OpFetchAdd, b, 8)
	wr.RemoteAddr, wr.CompareAdd = b.MR.Addr()+64, 5
	word := func(e *qptest.End, at int) uint64 { return binary.NativeEndian.Uint64(e.MR.Bytes()[at:]) }
	binary.NativeEndian.PutUint64(b.MR.Bytes()[64:], 10)
	a.RequireDirect(wr)
	require.EqualValues(t, []uint64{10, 15}, []uint64{word(a, 0), word(b, 64)})

	wr.Opcode, wr.CompareAdd, wr.Swap = verbs.OpCompareSwap, 15, 1000
	a.RequireDirect(wr)
	require.EqualValues(t, []uint64{15, 1000}, []uint64{word(a, 0), word(b, 64)})
	a.RequireDirect(wr)
	require.EqualValues(t, []uint64{1000, 1000}, []uint64{word(a, 0), word(b, 64)}, "the operand differs")

	wr = verbs.SendWR{ID: 7, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: []byte("inline"),
		RemoteAddr: b.MR.Addr() + qptest.EndSize - 6, RKey: b.MR.RKey()}
	a.RequireDirect(wr)
	require.Equal(t, "inline", string(b.MR.Bytes()[qptest.EndSize-6:]))
}

// In these cases a request is sent to the responder, although the requester has mapped
// the memory.
func TestNotDirect(t *testing.T) {
	for name, test := range map[string]struct {
		change func(wr *verbs.SendWR, b *qptest.End)
		want   verbs.Status
	}{
		"no data":              {func(wr *verbs.SendWR, _ *qptest.End) { wr.SGEs = nil }, verbs.StatusSuccess},
		"long data":            {func(wr *verbs.SendWR, _ *qptest.End) { wr.SGEs[0].Length = maxDirect + 1 }, verbs.StatusSuccess},
		"end out of bounds":    {func(wr *verbs.SendWR, _ *qptest.End) { wr.RemoteAddr += qptest.EndSize - 7 }, verbs.StatusRemAccessErr},
		"begin out of bounds":  {func(wr *verbs.SendWR, _ *qptest.End) { wr.RemoteAddr-- }, verbs.StatusRemAccessErr},
		"unknown key":          {func(wr *verbs.SendWR, _ *qptest.End) { wr.RKey++ }, verbs.StatusRemAccessErr},
		"unaligned atomic":     {func(wr *verbs.SendWR, _ *qptest.End) { wr.Opcode, wr.RemoteAddr = verbs.OpFetchAdd, wr.RemoteAddr+4 }, verbs.StatusRemInvReqErr},
		"immediate data":       {func(wr *verbs.SendWR, b *qptest.End) { wr.Opcode = verbs.OpWriteImm; b.Recv(1, 0, 0) }, verbs.StatusSuccess},
		"region closed":        {func(_ *verbs.SendWR, b *qptest.End) { b.ReopenMR() }, verbs.StatusRemAccessErr},
		"queue pair in error":  {func(_ *verbs.SendWR, b *qptest.End) { b.Fail() }, verbs.StatusRetryExcErr},
		"local memory missing": {func(wr *verbs.SendWR, _ *qptest.End) { wr.SGEs[0].LKey++ }, verbs.StatusLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newDirectPair(t, memoryConfig{})
			copy(a.MR.Bytes(), "12345678")
			old := b.MR
			wr := a.Remote(verbs.OpWrite, b, 8)
			test.change(&wr, b)
			a.Post(wr)
			if test.want != verbs.StatusLocProtErr {
				require.Empty(t, a.PollN(100))
			}
			if test.want == verbs.StatusRetryExcErr {
				require.Zero(t, old.Bytes()[0])
				return
			}
			require.Equal(t, test.want, a.WaitStatus(b))
		})
	}
}

// A WRITE does not overtake a SEND that the peer has not executed yet, or has refused.
func TestDirectKeepsOrder(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	copy(a.MR.Bytes(), "x")
	a.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	a.Post(a.Remote(verbs.OpWrite, b, 1))
	require.Empty(t, a.PollN(100), "the SEND was not executed")
	require.Zero(t, b.MR.Bytes()[0])
	b.PollN(1)
	require.Empty(t, a.PollN(100), "the SEND was refused")
	require.Zero(t, b.MR.Bytes()[0])
	b.Recv(1, 8, 8)
	require.Equal(t, verbs.StatusSuccess, a.WaitStatus(b))
	require.EqualValues(t, 'x', b.MR.Bytes()[0])

	b.Recv(2, 8, 8)
	a.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	b.PollN(2)
	a.RequireDirect(a.Remote(verbs.OpWrite, b, 1))
}

// A peer learns at once that a queue pair has stopped, even if the ring has no room for
// the notice.
func TestDirectStopsWithFullRing(t *testing.T) {
	const slots = 8
	a, b := newDirectPair(t, memoryConfig{slots: slots})
	for range slots {
		b.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend})
	}
	b.Fail()
	copy(a.MR.Bytes(), "x")
	a.Post(a.Remote(verbs.OpWrite, b, 1))
	require.Zero(t, b.MR.Bytes()[0])
}

// Modify changes what the peer may execute itself.
func TestDirectRights(t *testing.T) {
	a, b := newDirectPair(t, memoryConfig{})
	setAccess := func(access verbs.Access) {
		require.NoError(t, b.QP.Modify(&verbs.QPAttr{State: verbs.StateRTS, Access: access}, verbs.AttrState|verbs.AttrAccess))
	}
	setAccess(verbs.AccessRemoteWrite)
	a.PollN(1)
	a.RequireDirect(a.Remote(verbs.OpWrite, b, 8))
	a.Post(a.Remote(verbs.OpRead, b, 8))
	require.Empty(t, a.PollN(100))
	setAccess(verbs.AccessAll)
	require.Equal(t, verbs.StatusSuccess, a.WaitStatus(b))
	a.RequireDirect(a.Remote(verbs.OpRead, b, 8))
}

// A region without remote write access is sealed against writing.
func TestDirectReadOnly(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	require.NoError(t, b.MR.Close())
	var err error
	b.MR, err = b.PD.Alloc(&verbs.AllocAttr{Size: 100, Access: verbs.AccessRemoteRead | verbs.AccessLocalWrite})
	require.NoError(t, err)
	read := a.Remote(verbs.OpRead, b, 100)
	a.RequireSent(b, read, verbs.StatusSuccess)
	copy(b.MR.Bytes(), "still writable for its owner")
	a.RequireDirect(read)
	require.Equal(t, "still", string(a.MR.Bytes()[:5]))
	a.RequireSent(b, a.Remote(verbs.OpWrite, b, 8), verbs.StatusRemAccessErr)
}

// A region is private in three cases: if its memory was passed to Register, if
// Config.PrivateRegions is set, and if the process has too many descriptors.
func TestPrivateRegions(t *testing.T) {
	private := func(t *testing.T, a, b *qptest.End) {
		for range 3 {
			a.RequireSent(b, a.Remote(verbs.OpWrite, b, 8), verbs.StatusSuccess)
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
		require.NoError(t, b.MR.Close())
		var err error
		b.MR, err = b.PD.Register(make([]byte, 100), verbs.AccessAll)
		require.NoError(t, err)
		private(t, a, b)
	})
	t.Run("limit", func(t *testing.T) {
		b, a := newLocalPair(t, memoryConfig{regions: shm.NewRegionLimit(1)})
		a.Share(b)
		a.RequireDirect(a.Remote(verbs.OpWrite, b, 8))
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
	a.RequireDirect(a.Remote(verbs.OpWrite, b, 8))
	key := b.MR.RKey()
	b.ReopenMR()
	regions.sweep()
	require.Empty(t, regions.byKey)
	require.Nil(t, regions.find(key))

	a.Share(b)
	a.RequireDirect(a.Remote(verbs.OpWrite, b, 8))
	regions.sweep()
	regions.sweep()
	require.Empty(t, regions.byKey, "the region was not used")
	a.Share(b)
	a.RequireDirect(a.Remote(verbs.OpWrite, b, 8))
}

// A hostile peer sends answers that nobody has asked for, and answers with no descriptor
// or a wrong one. They do no harm.
func TestHostileRegionAnswers(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	doorbell := connOf(b).p.end.Doorbell
	answer := func(key uint32, passed uint64) {
		publish(b, fragment.Fragment{Op: shm.Shared, Imm: key, Addr: passed})
		a.PollN(1)
	}
	answer(1, 0)
	answer(1, 1)
	answer(b.MR.RKey(), 1)
	require.True(t, b.QP.PassRegion(b.MR.RKey(), doorbell))
	answer(1, 1)
	regions := &connOf(a).p.regions
	require.Empty(t, regions.byKey)

	require.True(t, regions.add(1))
	require.True(t, b.QP.PassRegion(b.MR.RKey(), doorbell))
	answer(1, 1)
	require.Equal(t, regionRefused, regions.find(1).state, "the region has another key")
	answer(1, 1)
	require.Zero(t, regions.asked)
}

// A peer can not get a descriptor for a key that no request has named.
func TestShareNeedsARequest(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	share := func() bool {
		publish(a, fragment.Fragment{Op: shm.Share, Imm: b.MR.RKey()})
		b.PollN(1)
		fd, ok := shm.ReceiveDescriptor(connOf(a).p.end.Doorbell)
		if ok {
			require.NoError(t, unix.Close(fd))
		}
		return ok
	}
	require.False(t, share())
	write := verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()}
	a.Post(write)
	require.Equal(t, verbs.StatusSuccess, a.WaitStatus(b))
	require.False(t, share(), "the key of a request without data is not checked")
	a.Post(a.Remote(verbs.OpRead, b, 8))
	require.Equal(t, verbs.StatusSuccess, a.WaitStatus(b))
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
	wrs := []verbs.SendWR{a.Remote(verbs.OpWrite, b, 64), a.Remote(verbs.OpRead, b, 64), a.Remote(verbs.OpFetchAdd, b, 8)}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = a.QP.PostSend(wrs)
		_, _ = a.CQ.Poll(a.WC)
	}))
}
