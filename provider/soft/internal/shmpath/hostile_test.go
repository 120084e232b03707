//go:build linux

package shmpath

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sharedMemory returns the memory that an end and its peer share.
func sharedMemory(e *qptest.End) []byte { return connOf(e).p.end.Segment.Mem }

// FuzzHostilePeer lets a peer write random bytes into the shared memory. The victim may
// lose the connection, but its requests and buffers complete at most once.
func FuzzHostilePeer(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(seed*13))
	}
	f.Fuzz(func(t *testing.T, seed uint64, writes uint16) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newMemoryDevice(t, memoryConfig{bytes: 8 << 10, slots: 16})
		victim, attacker := qptest.NewPair(t, d, verbs.ProgressManual)
		for i := range 32 {
			victim.Recv(1000+uint64(i), 4096*i, 4096)
		}
		if seed%2 == 0 {
			victim.RecvInline()
		}
		posted := 0
		for range 8 {
			for i := range 4 {
				if _, err := victim.QP.PostSend([]verbs.SendWR{hostileRequest(victim, attacker, uint64(posted), i)}); err == nil {
					posted++
				}
			}
			attacker.PollN(r.IntN(3))
			qptest.WriteRandom(r, sharedMemory(attacker), int(writes%512))
			seen := make(map[uint64]int)
			for _, wc := range victim.PollN(200) {
				if wc.Flags&verbs.WCInline != 0 {
					require.LessOrEqual(t, wc.ByteLen, uint32(verbs.InlineBytes))
					continue
				}
				seen[wc.ID]++
				require.Equal(t, 1, seen[wc.ID], "request %d completed twice", wc.ID)
			}
		}
	})
}

func hostileRequest(e, peer *qptest.End, id uint64, kind int) verbs.SendWR {
	wr := verbs.SendWR{ID: id, Opcode: []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd}[kind],
		Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.MR, 0, 600)}, RemoteAddr: peer.MR.Addr(), RKey: peer.MR.RKey()}
	if kind == 3 {
		wr.SGEs[0].Length = 8
	}
	return wr
}

// invalidWrites are writes of an attacker to the shared memory. The parameter own is the
// attacker's control block.
var invalidWrites = map[string]func(attacker *qptest.End, own *shm.ControlBlock){
	"more consumed than sent": func(_ *qptest.End, own *shm.ControlBlock) { own.Ack.Store(uint64(shm.NewAck(1000, 0))) },
	"more executed than sent": func(_ *qptest.End, own *shm.ControlBlock) { own.Ack.Store(uint64(shm.NewAck(0, 1000))) },
	"unknown NAK": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: shm.Refused, Imm: 2, Addr: 0x7f})
	},
	"NAK without a code": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: shm.Refused, Imm: 2, Addr: uint64(shm.FailureNAK(0))})
	},
	"NAK for a slot that was not sent": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: shm.Refused, Imm: 1000, Addr: uint64(shm.RNRNAK(1))})
	},
	"stopped before a slot that was not sent": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: shm.Stopped, Imm: 1000})
	},
	"response without a request": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.ReadData, Flags: fragment.Last, Length: 8})
	},
	"unknown operation": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: 99, Flags: fragment.First | fragment.Last})
	},
	"inline longer than the slot": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last, Length: 97})
	},
	"area longer than the ring": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last | shm.FlagArea, Length: 1 << 30})
	},
	"LAST without a FIRST": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.Send, Flags: fragment.Last, Length: 1})
	},
	"WRITE of another length": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.Write, Flags: fragment.First | fragment.Last, Length: 8, Total: 4})
	},
	"READ with a wrong key": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Total: 8, Key: 77})
	},
	"atomic without operands": func(e *qptest.End, _ *shm.ControlBlock) {
		publish(e, fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last})
	},
}

// An invalid value of a peer moves the victim's queue pair to the error state. The
// victim's shard still serves its connections to other shards.
func TestInvalidPeerWrites(t *testing.T) {
	for name, write := range invalidWrites {
		t.Run(name, func(t *testing.T) {
			d := newMemoryDevice(t, memoryConfig{vectors: 3})
			victim, attacker := qptest.NewPair(t, d, verbs.ProgressManual)
			other, peer := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 2, verbs.ProgressManual)
			other.Connect(peer, nil)
			peer.Connect(other, nil)
			victim.Recv(1, 0, 4096)
			victim.Post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			write(attacker, connOf(attacker).p.own)
			got := victim.PollN(3)
			require.Equal(t, verbs.StateError, victim.QP.State())
			require.Len(t, got, 2, "both requests end")

			peer.Recv(3, 0, 4096)
			other.Post(verbs.SendWR{Opcode: verbs.OpSend})
			require.Equal(t, verbs.StatusSuccess, peer.Wait(1, other)[0].Status)
		})
	}
}

// publish publishes a slot for the peer of e, without any check.
func publish(e *qptest.End, f fragment.Fragment) {
	c := connOf(e)
	c.p.out.Put(&shm.Slot{Fragment: f, Dest: c.dest})
	c.p.out.PublishFirst()
	c.p.sent.seq++
}

// Ringing a doorbell never blocks. The peer may have let the doorbell's socket become
// full, and may have cleared its flag O_NONBLOCK.
func TestDoorbellDoesNotBlock(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	fd := connOf(a).p.end.Doorbell
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	require.NoError(t, err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_NONBLOCK)
	require.NoError(t, err)
	for err == nil {
		_, err = unix.SendmsgN(fd, make([]byte, 1<<10), nil, nil, unix.MSG_DONTWAIT)
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	connOf(b).p.own.WakeFor.Store(shm.WakeAll)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}})
	}()
	select {
	case <-done:
	case <-time.After(cmside.Safety):
		require.FailNow(t, "posting a request blocks")
	}
}

// publishAtomics publishes n atomics on the memory of the victim, which executes them.
// The end e never consumes the results.
func publishAtomics(e *qptest.End, victim *qptest.End, n int) {
	p := connOf(e).p
	for range n {
		dst, _, ok := p.reserve(fragment.AtomicOperands)
		for ; !ok; dst, _, ok = p.reserve(fragment.AtomicOperands) {
			victim.PollN(1)
		}
		clear(dst)
		publish(e, fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last, Length: fragment.AtomicOperands, Addr: victim.MR.Addr(), Key: victim.MR.RKey()})
	}
	victim.PollN(10)
}

// If a peer does not read the responses to its atomics, the ring fills up and further
// responses wait. The victim's owner can sleep meanwhile. If the peer sends more atomics
// than allowed, it loses its connection.
func TestStalledAtomics(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewSleeper(t, d, 1, verbs.ProgressManual)
	a.Connect(b.End, nil)
	b.Connect(a, nil)
	qptest.BecomeReady(a, b.End)
	c := connOf(b.End)
	publishAtomics(a, b.End, c.p.out.Len()+qp.MaxRdAtomic)
	require.Len(t, c.responses, qp.MaxRdAtomic)
	b.RequireAsleep()
	require.Equal(t, verbs.StateRTS, b.QP.State())
	publishAtomics(a, b.End, 1)
	require.Equal(t, verbs.StateError, b.QP.State())
}

// A peer that claims to have consumed more slots than were sent loses its connection. A
// response to it is waiting for room at that time.
func TestFalseConsumedCount(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{bytes: 8 << 10})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewSleeper(t, d, 1, verbs.ProgressManual)
	a.Connect(b.End, nil)
	b.Connect(a, nil)
	qptest.BecomeReady(a, b.End)
	publish(a, fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Addr: b.MR.Addr(), Key: b.MR.RKey(), Total: qptest.EndSize})
	b.RequireAsleep()
	require.Equal(t, verbs.StateRTS, b.QP.State())
	connOf(a).p.own.Ack.Store(uint64(shm.NewAck(0x7fffffff, 0)))
	b.PollN(10)
	require.Equal(t, verbs.StateError, b.QP.State())
	b.RequireAsleep()
}

// A peer may say many times that it is ready. Only a limited number of these slots is
// answered.
func TestAnswersAreLimited(t *testing.T) {
	a, b := newLocalPair(t, memoryConfig{})
	p := connOf(a).p
	for i := range 1000 {
		for _, _, ok := p.reserve(0); !ok; _, _, ok = p.reserve(0) {
			b.PollN(1)
		}
		publish(a, fragment.Fragment{Op: shm.Ready, Imm: uint32(shm.NewDest(a.QP.Num(), uint8(i)))})
	}
	b.PollN(100)
	require.LessOrEqual(t, connOf(b).p.out.Tail, uint32(1+maxAnswers))
}
