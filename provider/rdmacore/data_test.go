//go:build cgo && linux

package rdmacore_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestTurnDoesNotAllocate checks that sending and receiving a message allocates no
// memory.
func TestTurnDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	sends := []verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)},
	}}
	recvs := []verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(b.mr, 0, 8)}}}
	wcs := make([]verbs.WC, 4)
	channel, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	r.NoError(err)
	r.closing(channel)
	idle, err := r.dev.CreateCQ(&verbs.CQAttr{Depth: 1, Channel: channel, Progress: verbs.ProgressManual})
	r.NoError(err)
	r.closing(idle)
	failed := error(nil)
	note := func(_ int, err error) {
		if err != nil {
			failed = err
		}
	}
	turn := func() {
		note(b.qp.PostRecv(recvs))
		note(a.qp.PostSend(sends))
		note(0, idle.Arm(false))
		for _, e := range []*end{a, b} {
			for n := 0; n == 0 && failed == nil; {
				var err error
				n, err = e.cq.Poll(wcs)
				note(n, err)
			}
			note(e.cq.Poll(wcs))
		}
	}
	turn() // The first turn allocates memory that later turns reuse.
	require.Zero(t, testing.AllocsPerRun(200, turn))
	r.NoError(failed)
}

func TestNextCompletionEventDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	channel, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Progress: verbs.ProgressManual})
	r.NoError(err)
	r.closing(channel)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = channel.Next() }))
}

// Memory of the Go heap can be used to send and to receive.
func TestGoMemory(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	from, to := make([]byte, 20000), make([]byte, 20000)
	for i := range from {
		from[i] = byte(i * 7)
	}
	source, err := r.pd.Register(from, 0)
	r.NoError(err)
	r.closing(source)
	target, err := r.pd.Register(to, verbs.AccessLocalWrite)
	r.NoError(err)
	r.closing(target)
	runtime.GC()
	_, err = b.qp.PostRecv([]verbs.RecvWR{{SGEs: []verbs.SGE{verbs.SGEOf(target, 0, len(to))}}})
	r.NoError(err)
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(source, 0, len(from))}}})
	r.NoError(err)
	a.take(1)
	b.take(1)
	r.Equal(from, to)
}

// A batch that needs several calls of the library is posted completely and in order.
func TestLongBatch(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	n := min(a.qp.Caps().MaxSendWR, b.qp.Caps().MaxRecvWR)
	recvs, sends := make([]verbs.RecvWR, n), make([]verbs.SendWR, n)
	payload := []byte("0123456789abcdef")[:min(16, a.qp.Caps().MaxInline)]
	for i := range n {
		recvs[i] = verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{verbs.SGEOf(b.mr, 16*i, 16)}}
		sends[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: payload}
	}
	got, err := b.qp.PostRecv(recvs)
	r.NoError(err)
	r.Equal(n, got)
	got, err = a.qp.PostSend(sends)
	r.NoError(err)
	r.Equal(n, got)
	for _, e := range []*end{a, b} {
		for i, wc := range e.take(n) {
			r.Equal(uint64(i), wc.ID)
		}
	}
	for i := range n {
		r.Equal(payload, b.mr.Bytes()[16*i:16*i+len(payload)])
	}
}

// SendInline posts one message, and refuses the next one until Doorbell or PostSend was
// called.
func TestSendInline(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	for i := range 3 {
		_, err := b.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGEs: []verbs.SGE{verbs.SGEOf(b.mr, 8*i, 8)}}})
		r.NoError(err)
	}
	payload := []byte("message")
	r.True(a.qp.SendInline(7, verbs.SendSignaled, payload))
	r.False(a.qp.SendInline(8, verbs.SendSignaled, payload))
	copy(payload, "changed")
	r.Equal(uint64(7), a.take(1)[0].ID)

	a.qp.Doorbell()
	r.True(a.qp.SendInline(9, 0, nil))
	_, err := a.qp.PostSend([]verbs.SendWR{{ID: 10, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}})
	r.NoError(err)
	r.Equal(uint64(10), a.take(1)[0].ID)

	a.qp.Doorbell()
	r.False(a.qp.SendInline(11, verbs.SendInline, payload), "a flag that only PostSend accepts")
	r.False(a.qp.SendInline(11, 0, make([]byte, a.qp.Caps().MaxInline+1)))
	wcs := b.take(3)
	r.Equal([]uint32{7, 0, 0}, []uint32{wcs[0].ByteLen, wcs[1].ByteLen, wcs[2].ByteLen})
	r.Equal("message", string(b.mr.Bytes()[:7]))
	r.NoError(a.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	r.False(a.qp.SendInline(11, 0, payload))
}

// A receive buffer is flushed even if it is posted after the queue pair has failed.
func TestFlushAfterSilentFailure(t *testing.T) {
	r := newRig(t)
	a, b := r.pair()
	post := func(id uint64) {
		_, err := a.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}}})
		r.NoError(err)
	}
	post(1)
	wrong := verbs.SendWR{ID: 9, Opcode: verbs.OpWrite, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}, RemoteAddr: b.mr.Addr(), RKey: ^b.mr.RKey()}
	_, err := a.qp.PostSend([]verbs.SendWR{wrong})
	r.NoError(err)
	r.until(func() bool { return a.qp.State() == verbs.StateError })
	post(2)
	got := map[uint64]verbs.Status{}
	poll := func() {
		var wcs [8]verbs.WC
		n, err := a.cq.Poll(wcs[:])
		r.NoError(err)
		for _, wc := range wcs[:n] {
			got[wc.ID] = wc.Status
		}
	}
	r.until(func() bool { poll(); return len(got) == 3 })
	post(3)
	r.until(func() bool { poll(); return len(got) == 4 })
	r.Equal(map[uint64]verbs.Status{
		1: verbs.StatusWRFlushErr, 2: verbs.StatusWRFlushErr, 3: verbs.StatusWRFlushErr, 9: verbs.StatusRemAccessErr,
	}, got)
}

// NextAsync reports an overrun even if the CQ has already fetched the event.
func TestOverrunIsReported(t *testing.T) {
	r := newRig(t)
	small, err := r.dev.CreateCQ(&verbs.CQAttr{Depth: 1})
	r.NoError(err)
	r.closing(small)
	qp, err := r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: small, RecvCQ: small, Caps: verbs.QPCaps{MaxRecvWR: 64}})
	r.NoError(err)
	r.closing(qp)
	init := verbs.QPAttr{State: verbs.StateInit, Port: 1}
	r.NoError(qp.Modify(&init, verbs.AttrState|verbs.AttrPort|verbs.AttrAccess))
	r.False(readable(r.t, r.dev.AsyncFD()))
	for range small.Depth() + 1 {
		_, err := qp.PostRecv([]verbs.RecvWR{{}})
		r.NoError(err)
	}
	r.NoError(qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	r.until(func() bool {
		_, err = small.Poll(nil)
		return err != nil
	})
	r.ErrorIs(err, verbs.ErrOverrun)

	r.True(readable(r.t, r.dev.AsyncFD()))
	var ev verbs.AsyncEvent
	ok, err := r.dev.NextAsync(&ev)
	r.NoError(err)
	r.True(ok)
	r.Equal(verbs.AsyncEvent{Type: verbs.AsyncCQError, CQ: small}, ev)
	r.False(readable(r.t, r.dev.AsyncFD()))
}

func readable(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	require.NoError(t, err)
	return n > 0
}
