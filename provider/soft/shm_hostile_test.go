//go:build linux

package soft

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// sharedMemory returns the memory that an end and its peer share.
func (e *end) sharedMemory() []byte { return e.qp.path.(*shmConn).end.Segment.Mem }

// pollN polls an end n times, and returns the completions.
func (e *end) pollN(drives int) []verbs.WC {
	var got []verbs.WC
	memory := make([]verbs.InlineData, len(e.wc))
	for range drives {
		n, err := e.cq.(verbs.InlinePoller).PollInline(e.wc, memory)
		require.NoError(e.t, err)
		got = append(got, e.wc[:n]...)
	}
	return got
}

// FuzzHostilePeer lets a peer write random bytes into the shared memory. The victim may
// lose the connection, but its requests and buffers complete at most once.
func FuzzHostilePeer(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(seed*13))
	}
	f.Fuzz(func(t *testing.T, seed uint64, writes uint16) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := openDevice(t, &Config{Vectors: 2, RingBytes: 8 << 10, RingSlots: 16})
		victim, attacker := newPair(t, d, verbs.ProgressManual)
		for i := range 32 {
			victim.recv(1000+uint64(i), 4096*i, 4096)
		}
		if seed%2 == 0 {
			victim.qp.ReceiveInline()
		}
		posted := 0
		for range 8 {
			for i := range 4 {
				if _, err := victim.qp.PostSend([]verbs.SendWR{hostileRequest(victim, attacker, uint64(posted), i)}); err == nil {
					posted++
				}
			}
			attacker.pollN(r.IntN(3))
			writeRandom(r, attacker.sharedMemory(), int(writes%512))
			seen := make(map[uint64]int)
			for _, wc := range victim.pollN(200) {
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

func hostileRequest(e, peer *end, id uint64, kind int) verbs.SendWR {
	wr := verbs.SendWR{ID: id, Opcode: []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd}[kind],
		Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.mr, 0, 600)}, RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey()}
	if kind == 3 {
		wr.SGEs[0].Length = 8
	}
	return wr
}

// writeRandom writes random bytes to the shared memory: half of them anywhere, half to
// control blocks and slot headers.
func writeRandom(r *rand.Rand, mem []byte, writes int) {
	for range writes {
		at := r.IntN(len(mem))
		switch r.IntN(4) {
		case 0:
			at = shm.ControlOffset + r.IntN(2*shm.ControlStride)
		case 1:
			at = shm.RingsOffset + r.IntN(32)*shm.SlotSize + r.IntN(32)
		}
		mem[at] = byte(r.Uint32())
		if r.IntN(2) == 0 {
			mem[at] = byte(r.IntN(4))
		}
	}
}

// An invalid value of a peer moves the victim's queue pair to the error state. Other
// connections on its CQ still work.
func TestInvalidPeerWrites(t *testing.T) {
	writes := map[string]func(ctl *shm.ControlBlock, out *shm.Producer){
		"more acknowledged than sent": func(c *shm.ControlBlock, _ *shm.Producer) { c.Ack.Store(1000) },
		"unknown syndrome":            func(c *shm.ControlBlock, _ *shm.Producer) { c.Ack.Store(1<<40 | 0x7f<<32) },
		"NAK without a code":          func(c *shm.ControlBlock, _ *shm.Producer) { c.Ack.Store(uint64(shm.NewAck(0, shm.FailureNAK(0), 1))) },
		"unknown operation": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: 99, Flags: fragment.First | fragment.Last})
		},
		"inline longer than the slot": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last, Length: 97})
		},
		"area longer than the ring": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: fragment.Send, Flags: fragment.First | fragment.Last | shm.FlagArea, Length: 1 << 30})
		},
		"LAST without a FIRST": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: fragment.Send, Flags: fragment.Last, Length: 1})
		},
		"WRITE of another length": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: fragment.Write, Flags: fragment.First | fragment.Last, Length: 8, Total: 4})
		},
		"READ with a wrong key": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Total: 8, Key: 77})
		},
		"atomic without operands": func(_ *shm.ControlBlock, p *shm.Producer) {
			publishFrame(p, fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last})
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			d := openDevice(t, &Config{Vectors: 2})
			victim, attacker := newPair(t, d, verbs.ProgressManual)
			other, peer := newPair(t, d, verbs.ProgressManual)
			victim.recv(1, 0, 4096)
			victim.post(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			l := attacker.qp.path.(*shmConn)
			write(l.own, &l.requestsOut)
			got := victim.pollN(3)
			require.Equal(t, verbs.StateError, victim.qp.State())
			require.Len(t, got, 2, "both requests end")

			peer.recv(3, 0, 4096)
			other.post(verbs.SendWR{Opcode: verbs.OpSend})
			require.Equal(t, verbs.StatusSuccess, peer.wait(1, other)[0].Status)
		})
	}
}

func publishFrame(p *shm.Producer, f fragment.Fragment) { p.Publish(&f) }

// Ringing a doorbell never blocks, even if the peer lets the doorbell's socket become
// full and clears its flag O_NONBLOCK.
func TestDoorbellDoesNotBlock(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	fd := a.qp.path.(*shmConn).end.Doorbell
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	require.NoError(t, err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_NONBLOCK)
	require.NoError(t, err)
	for err == nil {
		_, err = unix.SendmsgN(fd, make([]byte, 1<<10), nil, nil, unix.MSG_DONTWAIT)
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	b.qp.path.(*shmConn).own.WakeFor.Store(shm.WakeAll)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x")}})
	}()
	select {
	case <-done:
	case <-time.After(safety):
		require.FailNow(t, "posting a request blocks")
	}
}

// requireAsleep polls and arms the CQ. The completion channel must not be readable then,
// so that the owner can sleep.
func (s *sleeper) requireAsleep() {
	s.t.Helper()
	for range 4 {
		s.pollN(1)
		require.NoError(s.t, s.cq.Arm(false))
		s.pollN(1)
		for ok := true; ok; {
			var err error
			_, ok, err = s.ch.Next()
			require.NoError(s.t, err)
			if ok {
				s.cq.AckEvents(1)
			}
		}
	}
	require.NoError(s.t, s.cq.Arm(false))
	s.pollN(1)
	require.False(s.t, cmside.Readable(s.t, s.ch.FD()))
}

// If a peer leaves the responses to its atomics unread, the ring fills up. The victim's
// owner can sleep meanwhile.
func TestStalledAtomicsLetTheVictimSleep(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	p := &a.qp.path.(*shmConn).requestsOut
	for range b.qp.path.(*shmConn).responsesOut.Len() + 1 {
		dst, _, ok := p.Reserve(fragment.AtomicOperands)
		require.True(t, ok)
		clear(dst)
		publishFrame(p, fragment.Fragment{Op: fragment.FetchAdd, Flags: fragment.First | fragment.Last, Length: fragment.AtomicOperands, Addr: b.mr.Addr(), Key: b.mr.RKey()})
	}
	b.requireAsleep()
	require.Equal(t, verbs.StateRTS, b.qp.State())
}

func TestFalseResponseCount(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2, RingBytes: 8 << 10})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newSleeper(t, d, 1, verbs.ProgressManual)
	a.connect(b.end, nil)
	b.connect(a, nil)
	l := a.qp.path.(*shmConn)
	l.own.Responses.Store(0x7fffffff)
	publishFrame(&l.requestsOut, fragment.Fragment{Op: fragment.Read, Flags: fragment.First | fragment.Last, Addr: b.mr.Addr(), Key: b.mr.RKey(), Total: endSize})
	b.requireAsleep()
	require.Equal(t, verbs.StateError, b.qp.State())
}
