//go:build linux

package soft

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message that is received inline needs a receive buffer, but leaves it in the queue
// for the next message.
func TestReceiveInlineLeavesTheBuffer(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.qp.ReceiveInline()
	y.recv(7, 0, 4096)
	for length := range verbs.InlineBytes + 1 {
		text := bytes.Repeat([]byte{byte(length + 1)}, length)
		x.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: text})
		wcs, data := y.pollInline(1, x)
		require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, Flags: verbs.WCInline, ByteLen: uint32(length), QPN: y.qp.Num()}, wcs[0])
		require.Equal(t, text, append([]byte{}, data[0]...))
	}
	require.Equal(t, make([]byte, 4096), y.mr.Bytes()[:4096])
	require.Equal(t, 1, y.qp.receiveBuffers())

	long := bytes.Repeat([]byte{5}, verbs.InlineBytes+1)
	x.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: long})
	wcs, _ := y.pollInline(1, x)
	require.Equal(t, verbs.WC{ID: 7, Opcode: verbs.WCRecv, ByteLen: uint32(len(long)), QPN: y.qp.Num()}, wcs[0])
	require.Equal(t, long, y.mr.Bytes()[:len(long)])
}

// Small messages of some kinds are not received inline, but in the receive buffer.
func TestNotReceivedInline(t *testing.T) {
	small := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("small")}
	imm := small
	imm.Opcode, imm.Imm = verbs.OpSendImm, 9
	for name, test := range map[string]struct {
		wr       verbs.SendWR
		inline   bool // true if the receiver calls ReceiveInline
		capacity int  // length of the slice for inline data
	}{
		"immediate data":         {imm, true, 64},
		"without ReceiveInline":  {small, false, 64},
		"no memory for the data": {small, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := newLocalPair(t, memoryConfig{})
			if test.inline {
				y.qp.ReceiveInline()
			}
			y.recv(1, 0, 100)
			x.post(test.wr)
			n := 0
			for n == 0 {
				var err error
				n, err = y.cq.(verbs.InlinePoller).PollInline(y.wc, make([]verbs.InlineData, test.capacity))
				require.NoError(t, err)
			}
			require.Zero(t, y.wc[0].Flags&verbs.WCInline)
			require.Equal(t, "small", string(y.mr.Bytes()[:5]))
			require.Zero(t, y.qp.receiveBuffers())
		})
	}
}

// Messages of all kinds keep their order, even if a poll can not return all of them.
func TestReceiveInlineKeepsOrder(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.qp.ReceiveInline()
	const messages = 60
	for i := range messages {
		y.recv(uint64(i), 512*i, 512)
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte{byte(i)}}
		switch i % 7 {
		case 3:
			wr.Opcode, wr.Imm = verbs.OpSendImm, uint32(i)
		case 5:
			wr.Inline = bytes.Repeat([]byte{byte(i)}, verbs.InlineBytes+1)
		}
		x.post(wr)
	}
	memory := make([]verbs.InlineData, 4)
	inline := 0
	for i := 0; i < messages; {
		n, err := y.cq.(verbs.InlinePoller).PollInline(y.wc[:1+i%4], memory)
		require.NoError(t, err)
		for k, wc := range y.wc[:n] {
			first := memory[k][0]
			if wc.Flags&verbs.WCInline == 0 {
				first = y.mr.Bytes()[512*wc.ID]
			} else {
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
	y.qp.ReceiveInline()
	x.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: []byte("wait")})
	for !x.qp.awaitsRNRTimer() {
		require.Empty(t, y.pollN(1))
		require.Empty(t, x.pollN(1))
	}
	y.recv(2, 0, 10)
	_, data := y.pollInline(1, x)
	require.Equal(t, "wait", string(data[0]))
	require.Equal(t, verbs.StatusSuccess, x.wait(1, y)[0].Status)

	x.post(verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: make([]byte, 11)})
	wcs, _ := y.pollInline(1, x)
	require.Equal(t, verbs.StatusLocLenErr, wcs[0].Status)
	require.Equal(t, verbs.StatusRemInvReqErr, x.wait(1, y)[0].Status)
}

// Many small messages do not overrun the CQ, because they occupy no place in the CQ.
func TestReceiveInlineDoesNotOverrun(t *testing.T) {
	const depth = 3
	d := newMemoryDevice(t, memoryConfig{})
	x := newEnd(t, d, 0, verbs.ProgressManual)
	y := newEndOn(t, d, &verbs.CQAttr{Depth: depth, Vector: 1, Progress: verbs.ProgressManual})
	x.connect(y, nil)
	y.connect(x, nil)
	y.qp.ReceiveInline()
	for i := range depth {
		y.recv(uint64(i), 0, 100)
	}
	for range 10 {
		x.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")})
	}
	// An invalid request makes the queue pair of y fail, so its posted buffers complete
	// in the same poll.
	publish(x, fragment.Fragment{Op: 99, Flags: fragment.First | fragment.Last})
	wcs, _ := y.pollInline(10+depth, x)
	for i, wc := range wcs {
		require.Equal(t, i < 10, wc.Flags&verbs.WCInline != 0)
	}
	require.Equal(t, verbs.StatusWRFlushErr, wcs[10].Status)
	require.Empty(t, y.pollN(1)) // After an overrun, a poll would fail.
}

// A queue pair that was reset still receives small messages inline.
func TestReceiveInlineSurvivesReset(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.qp.ReceiveInline()
	x.reset()
	y.reset()
	x.connect(y, nil)
	y.connect(x, nil)
	becomeReady(x, y)
	y.recv(1, 0, 10)
	x.post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("again")})
	wcs, data := y.pollInline(1, x)
	require.Equal(t, verbs.WCInline, wcs[0].Flags)
	require.Equal(t, "again", string(data[0]))
}

// A CQ that is armed for solicited completions raises its event only for a message with
// a solicited event.
func TestReceiveInlineRaisesEvents(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	chn, err := d.CreateCompChannel(&verbs.CompChannelAttr{Vector: 1, Progress: verbs.ProgressManual})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, chn.Close()) })
	x := newEnd(t, d, 0, verbs.ProgressManual)
	y := newEndOn(t, d, &verbs.CQAttr{Depth: 64, Vector: 1, Progress: verbs.ProgressManual, Channel: chn, Cookie: 4})
	x.connect(y, nil)
	y.connect(x, nil)
	y.qp.ReceiveInline()
	y.recv(1, 0, 100)
	require.NoError(t, y.cq.Arm(true))
	for _, solicited := range []bool{false, true} {
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}
		if solicited {
			wr.Flags |= verbs.SendSolicited
		}
		x.post(wr)
		y.pollInline(1, x)
		_, raised, err := chn.Next()
		require.NoError(t, err)
		require.Equal(t, solicited, raised)
	}
	y.cq.AckEvents(1)
}

// SendInline accepts requests while the ring has room. If a caller uses both SendInline
// and PostSend, the completions come in the order of the calls.
func TestSendInline(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	for i := range 100 {
		y.recv(uint64(i), 0, 100)
	}
	for i := range 30 {
		flags := verbs.SendFlags(0)
		if i%3 == 0 {
			flags = verbs.SendSignaled
		}
		if i%10 == 7 {
			x.post(verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: flags | verbs.SendInline, Inline: []byte{byte(i)}})
		} else {
			require.True(t, x.qp.SendInline(uint64(i), flags, []byte{byte(i)}))
		}
	}
	x.qp.Doorbell()
	require.Len(t, y.wait(30), 30)
	for i, wc := range x.wait(10, y) {
		require.Equal(t, verbs.WC{ID: uint64(3 * i), Opcode: verbs.WCSend, QPN: x.qp.Num()}, wc)
	}
	require.False(t, x.qp.outstanding())
}

// SendInline makes the first message visible to the peer at once. The next messages
// become visible together when Doorbell is called.
func TestSendInlineBeforeDoorbell(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	for i := range 3 {
		y.recv(uint64(i), 0, 100)
		require.True(t, x.qp.SendInline(0, 0, []byte("x")))
	}
	require.Len(t, y.pollN(10), 1)
	x.qp.Doorbell()
	require.Len(t, y.pollN(10), 2)
}

func TestSendInlineRefuses(t *testing.T) {
	// The results of prepare are the arguments for SendInline, and the number of messages
	// that were sent before.
	for name, prepare := range map[string]func(x *end) (flags verbs.SendFlags, length, before int){
		"longer than MaxInline": func(*end) (verbs.SendFlags, int, int) { return 0, 129, 0 },
		"fence":                 func(*end) (verbs.SendFlags, int, int) { return verbs.SendFence, 1, 0 },
		"error state": func(x *end) (verbs.SendFlags, int, int) {
			x.fail()
			return 0, 1, 0
		},
		"full send queue": func(x *end) (verbs.SendFlags, int, int) {
			n := 0
			for x.qp.SendInline(1, 0, nil) {
				n++
			}
			_, err := x.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
			require.ErrorIs(x.t, err, verbs.ErrQueueFull)
			return 0, 1, n
		},
		"full ring": func(x *end) (verbs.SendFlags, int, int) {
			big := verbs.SGEOf(x.mr, 0, 1<<20)
			x.post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{big}})
			require.True(x.t, x.qp.hasUnsent())
			return 0, 1, 1
		},
		"closed": func(x *end) (verbs.SendFlags, int, int) {
			require.NoError(x.t, x.qp.Close())
			return 0, 1, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, y := newLocalPair(t, memoryConfig{})
			p := connOf(x).p
			for i := range uint64(128) {
				y.recv(i, 0, 1<<20)
			}
			flags, length, before := prepare(x)
			require.False(t, x.qp.SendInline(1, flags, make([]byte, length)))
			x.qp.Doorbell()
			if x.qp.Closed() {
				require.Zero(t, p.conns.len())
			}
			y.wait(before, x)
			x.pollN(10)
			require.Empty(t, y.pollN(10), "a refused message is not sent later")
		})
	}
	t.Run("automatic progress", func(t *testing.T) {
		x, _ := newPair(t, newMemoryDevice(t, memoryConfig{}), verbs.ProgressAuto)
		require.False(t, x.qp.SendInline(1, 0, nil))
	})
}

// SendInline refuses a request until the peer is ready.
func TestSendInlineBeforeReady(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	x, y := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	x.connect(y, nil)
	require.False(t, x.qp.SendInline(1, 0, nil))
	y.connect(x, nil)
	x.pollN(1)
	require.True(t, x.qp.SendInline(1, 0, nil))
}

func TestSmallMessagesDoNotAllocate(t *testing.T) {
	x, y := newLocalPair(t, memoryConfig{})
	y.qp.ReceiveInline()
	y.recv(1, 0, 100)
	memory, text := make([]verbs.InlineData, len(y.wc)), make([]byte, 64)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for !x.qp.SendInline(1, verbs.SendSignaled, text) {
			_, _ = x.cq.Poll(x.wc)
		}
		x.qp.Doorbell()
		for n := 0; n == 0; {
			n, _ = y.cq.(verbs.InlinePoller).PollInline(y.wc, memory)
		}
	}))
}
