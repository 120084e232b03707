//go:build linux

package shmpath

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message that is received inline needs a receive buffer, but leaves it in the queue
// for the next message.
func TestReceiveInlineLeavesTheBuffer(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.RecvInline()
	y.Recv(7, 0, 4096)
	for length := range verbs.InlineBytes + 1 {
		text := bytes.Repeat([]byte{byte(length + 1)}, length)
		x.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: text})
		wcs, data := y.WaitInline(1, x)
		require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, Flags: verbs.WCInline, ByteLen: uint32(length), QPN: y.QP.Num()}, wcs[0])
		require.Equal(t, text, append([]byte{}, data[0]...))
	}
	require.Equal(t, make([]byte, 4096), y.MR.Bytes()[:4096])
	require.Equal(t, 1, y.QP.ReceiveBuffers())

	long := bytes.Repeat([]byte{5}, verbs.InlineBytes+1)
	x.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: long})
	wcs, _ := y.WaitInline(1, x)
	require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, ByteLen: uint32(len(long)), QPN: y.QP.Num()}, wcs[0])
	require.Equal(t, long, y.MR.Bytes()[:len(long)])
}

// Small messages of some kinds are not received inline, but in the receive buffer.
func TestNotReceivedInline(t *testing.T) {
	small := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("small")}
	imm := small
	imm.Opcode, imm.Imm = verbs.OpSendImm, 9
	for name, test := range map[string]struct {
		wr       verbs.SendWR
		mode     verbs.RecvMode
		capacity int // length of CQAttr.Inline
	}{
		"immediate data":         {imm, verbs.RecvInline, 64},
		"mode RecvBuffers":       {small, verbs.RecvBuffers, 64},
		"no memory for the data": {small, verbs.RecvInline, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := newInlinePair(t, &verbs.CQAttr{Depth: 64, Inline: make([]verbs.InlineData, test.capacity)})
			require.NoError(t, y.QP.SetRecvMode(test.mode))
			y.Recv(1, 0, 100)
			x.Post(test.wr)
			require.Zero(t, y.Wait(1, x)[0].Flags&verbs.WCInline)
			require.Equal(t, "small", string(y.MR.Bytes()[:5]))
			require.Zero(t, y.QP.ReceiveBuffers())
		})
	}
}

// newInlinePair makes two connected ends. The CQ of y has the given attributes.
func newInlinePair(t *testing.T, attr *verbs.CQAttr) (x, y *qptest.End) {
	d := newMemoryDevice(t, memoryConfig{})
	attr.Vector, attr.Progress = 1, verbs.ProgressManual
	x, y = qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEndOn(t, d, attr)
	x.Connect(y, nil)
	y.Connect(x, nil)
	return x, y
}

// Messages of all kinds keep their order, even if a poll can not return all of them.
func TestReceiveInlineKeepsOrder(t *testing.T) {
	x, y := newInlinePair(t, &verbs.CQAttr{Depth: 64, Inline: make([]verbs.InlineData, 3)})
	y.RecvInline()
	const messages = 60
	for i := range messages {
		y.Recv(uint64(i), 512*i, 512)
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte{byte(i)}}
		switch i % 7 {
		case 3:
			wr.Opcode, wr.Imm = verbs.OpSendImm, uint32(i)
		case 5:
			wr.Inline = bytes.Repeat([]byte{byte(i)}, verbs.InlineBytes+1)
		}
		x.Post(wr)
	}
	inline := 0
	for i := 0; i < messages; {
		n, err := y.CQ.Poll(y.WC[:1+i%4])
		require.NoError(t, err)
		for k, wc := range y.WC[:n] {
			first := y.MR.Bytes()[512*wc.ID]
			if wc.Flags&verbs.WCInline != 0 {
				first = y.Inline[k][0]
				inline++
			}
			require.Equal(t, byte(i), first)
			i++
		}
	}
	require.NotZero(t, inline)
	require.Less(t, inline, messages)
}

// Without a receive buffer, the sender gets an RNR NAK and retries. A message longer
// than the buffer fails on both sides.
func TestReceiveInlineNeedsABuffer(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.RecvInline()
	x.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("wait")})
	for !x.QP.AwaitsRNRTimer() {
		require.Empty(t, y.PollN(1))
		require.Empty(t, x.PollN(1))
	}
	y.Recv(2, 0, 10)
	_, data := y.WaitInline(1, x)
	require.Equal(t, "wait", string(data[0]))
	require.Equal(t, verbs.StatusSuccess, x.Wait(1, y)[0].Status)

	x.Post(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 11)})
	wcs, _ := y.WaitInline(1, x)
	require.Equal(t, verbs.StatusLocLenErr, wcs[0].Status)
	require.Equal(t, verbs.StatusRemInvReqErr, x.Wait(1, y)[0].Status)
}

// While receiving is paused, a message gets an RNR NAK. Afterwards messages come without a
// buffer again.
func TestReceiveInlinePaused(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.RecvInline()
	y.Recv(2, 0, 10)
	require.NoError(t, y.QP.SetRecvMode(verbs.RecvPaused))
	x.Post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("wait")})
	for !x.QP.AwaitsRNRTimer() {
		require.Empty(t, y.PollN(1))
		require.Empty(t, x.PollN(1))
	}
	y.RecvInline()
	wcs, data := y.WaitInline(1, x)
	require.Equal(t, "wait", string(data[0]))
	require.Equal(t, verbs.WCInline, wcs[0].Flags)
	require.Equal(t, verbs.StatusSuccess, x.Wait(1, y)[0].Status)
}

// Many small messages do not overrun the CQ, because they occupy no place in the CQ.
func TestReceiveInlineDoesNotOverrun(t *testing.T) {
	const depth = 3
	x, y := newInlinePair(t, &verbs.CQAttr{Depth: depth, Inline: make([]verbs.InlineData, 64)})
	y.RecvInline()
	for i := range depth {
		y.Recv(uint64(i), 0, 100)
	}
	for range 10 {
		x.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")})
	}
	// An invalid request makes the queue pair of y fail, so its posted buffers complete
	// in the same poll.
	publish(x, fragment.Fragment{Op: 99, Flags: fragment.First | fragment.Last})
	wcs, _ := y.WaitInline(10+depth, x)
	for i, wc := range wcs {
		require.Equal(t, i < 10, wc.Flags&verbs.WCInline != 0)
	}
	require.Equal(t, verbs.StatusWRFlushErr, wcs[10].Status)
	require.Empty(t, y.PollN(1)) // After an overrun, a poll would fail.
}

// A queue pair that was reset receives small messages in its buffers.
func TestResetEndsReceiveInline(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.RecvInline()
	x.Reset()
	y.Reset()
	x.Connect(y, nil)
	y.Connect(x, nil)
	qptest.BecomeReady(x, y)
	y.Recv(1, 0, 10)
	x.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("again")})
	require.Zero(t, y.Wait(1, x)[0].Flags)
	require.Equal(t, "again", string(y.MR.Bytes()[:5]))
}

// A CQ that is armed for solicited completions raises its event only for a message with
// a solicited event.
func TestReceiveInlineRaisesEvents(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	chn, err := d.CreateCompChannel(&verbs.CompChannelAttr{Vector: 1, Progress: verbs.ProgressManual})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, chn.Close()) })
	x := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	y := qptest.NewEndOn(t, d, &verbs.CQAttr{Depth: 64, Vector: 1, Progress: verbs.ProgressManual, Channel: chn, Cookie: 4, Inline: make([]verbs.InlineData, 64)})
	x.Connect(y, nil)
	y.Connect(x, nil)
	y.RecvInline()
	y.Recv(1, 0, 100)
	require.NoError(t, y.CQ.Arm(true))
	for _, solicited := range []bool{false, true} {
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}
		if solicited {
			wr.Flags |= verbs.SendSolicited
		}
		x.Post(wr)
		y.WaitInline(1, x)
		_, raised, err := chn.Next()
		require.NoError(t, err)
		require.Equal(t, solicited, raised)
	}
	y.CQ.AckEvents(1)
}

// SendInline accepts requests while the ring has room. If a caller uses both SendInline
// and PostSend, the completions come in the order of the calls.
func TestSendInline(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	for i := range 100 {
		y.Recv(uint64(i), 0, 100)
	}
	for i := range 30 {
		flags := verbs.SendFlags(0)
		if i%3 == 0 {
			flags = verbs.SendSignaled
		}
		if i%10 == 7 {
			x.Post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: flags | verbs.SendInline, Inline: []byte{byte(i)}})
		} else {
			require.True(t, x.QP.SendInline(uint64(i), flags, []byte{byte(i)}))
		}
	}
	x.QP.Doorbell()
	require.Len(t, y.Wait(30), 30)
	for i, wc := range x.Wait(10, y) {
		require.Equal(t, verbs.WC{ID: uint64(3 * i), Opcode: verbs.WCSend, QPN: x.QP.Num()}, wc)
	}
	require.False(t, x.QP.Outstanding())
}

// SendInline makes the first message visible to the peer at once. The next messages
// become visible together when Doorbell is called.
func TestSendInlineBeforeDoorbell(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	for i := range 3 {
		y.Recv(uint64(i), 0, 100)
		require.True(t, x.QP.SendInline(0, 0, []byte("x")))
	}
	require.Len(t, y.PollN(10), 1)
	x.QP.Doorbell()
	require.Len(t, y.PollN(10), 2)
}

func TestSendInlineRefuses(t *testing.T) {
	// The results of prepare are the arguments for SendInline, and the number of messages
	// that were sent before.
	for name, prepare := range map[string]func(x *qptest.End) (flags verbs.SendFlags, length, before int){
		"longer than MaxInline": func(*qptest.End) (verbs.SendFlags, int, int) { return 0, 129, 0 },
		"fence":                 func(*qptest.End) (verbs.SendFlags, int, int) { return verbs.SendFence, 1, 0 },
		"error state": func(x *qptest.End) (verbs.SendFlags, int, int) {
			x.Fail()
			return 0, 1, 0
		},
		"full send queue": func(x *qptest.End) (verbs.SendFlags, int, int) {
			n := 0
			for x.QP.SendInline(1, 0, nil) {
				n++
			}
			_, err := x.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
			require.ErrorIs(x.T, err, verbs.ErrQueueFull)
			return 0, 1, n
		},
		"full ring": func(x *qptest.End) (verbs.SendFlags, int, int) {
			big := verbs.SGEOf(x.MR, 0, 1<<20)
			x.Post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{big}})
			require.True(x.T, x.QP.HasUnsent())
			return 0, 1, 1
		},
		"closed": func(x *qptest.End) (verbs.SendFlags, int, int) {
			require.NoError(x.T, x.QP.Close())
			return 0, 1, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := newLocalPair(t, memoryConfig{})
			p := connOf(x).p
			for i := range uint64(128) {
				y.Recv(i, 0, 1<<20)
			}
			flags, length, before := prepare(x)
			require.False(t, x.QP.SendInline(1, flags, make([]byte, length)))
			x.QP.Doorbell()
			if x.QP.Closed() {
				require.Zero(t, p.conns.len())
			}
			y.Wait(before, x)
			x.PollN(10)
			require.Empty(t, y.PollN(10), "a refused message is not sent later")
		})
	}
	t.Run("automatic progress", func(t *testing.T) {
		x, _ := qptest.NewPair(t, newMemoryDevice(t, memoryConfig{}), verbs.ProgressAuto)
		require.False(t, x.QP.SendInline(1, 0, nil))
	})
}

// SendInline refuses a request until the peer is ready.
func TestSendInlineBeforeReady(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	x, y := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	x.Connect(y, nil)
	require.False(t, x.QP.SendInline(1, 0, nil))
	y.Connect(x, nil)
	x.PollN(1)
	require.True(t, x.QP.SendInline(1, 0, nil))
}

func TestSmallMessagesDoNotAllocate(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.RecvInline()
	y.Recv(1, 0, 100)
	text := make([]byte, 64)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for !x.QP.SendInline(1, verbs.SendSignaled, text) {
			_, _ = x.CQ.Poll(x.WC)
		}
		x.QP.Doorbell()
		for n := 0; n == 0; {
			n, _ = y.CQ.Poll(y.WC)
		}
	}))
}
