//go:build linux

package rcpath

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A modelEnd is one end of a simulated connection. It posts random requests, and knows
// their results.
//
// Each kind of data has modelSlots slots of memory. Request i uses slot i modulo
// modelSlots. A packet that is executed twice or out of order overwrites the data of
// another request. The test fails when it checks that data.
type modelEnd struct {
	e    *qptest.End
	peer *modelEnd
	rng  *rand.Rand
	mtu  int
	todo int // number of requests that this end will post

	ops []modelOp // requests that were posted
	// number of completed requests; they complete in order
	done     int
	failed   bool
	received int // number of messages received
	// indexes in ops of SENDs, and of WRITEs with immediate data; the peer needs a receive
	// buffer for each of them
	expected []int
	posted   int    // number of receive buffers posted
	adds     uint64 // expected value of the peer's counter after all posted requests
	swaps    uint64 // expected value of the peer's word for compare-and-swap after all posted requests
}

// A modelOp is a request of a modelEnd.
type modelOp struct {
	op       verbs.Opcode
	size     int
	signaled bool
	before   uint64 // expected result of an atomic: value of the peer's word before it
}

const (
	modelSlots = 16
	slotBytes  = 16 << 10
	areaBytes  = modelSlots * slotBytes
	// Offsets of the areas of an end's memory.
	sendArea    = 0 * areaBytes // data of the SENDs and WRITEs of this end
	resultArea  = 1 * areaBytes // data of this end's READs, and results of its atomics
	receiveArea = 2 * areaBytes // receive buffers, for the peer's SENDs
	targetArea  = 3 * areaBytes // destination of the peer's WRITEs
	sourceArea  = 4 * areaBytes // source of the peer's READs; its contents never change
	atomicArea  = 5 * areaBytes // words for the peer's fetch-and-add and compare-and-swap
)

func newModelEnd(e *qptest.End, seed uint64, todo int, mtu verbs.MTU) *modelEnd {
	s := &modelEnd{e: e, rng: rand.New(rand.NewPCG(seed, 2)), todo: todo, mtu: mtu.Bytes()}
	fill(e.MR.Bytes()[sourceArea:][:areaBytes], 1)
	return s
}

// fill fills b with pseudorandom bytes. The parameter number is the seed.
func fill(b []byte, number uint64) {
	x := number*0x9e3779b97f4a7c15 + 1
	for ; len(b) >= 8; b = b[8:] {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(b, x)
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

func slotOf(area, i int) int { return area + i%modelSlots*slotBytes }

// finished reports whether all requests have completed, or one has failed.
func (s *modelEnd) finished() bool { return s.failed || s.done == s.todo }

// postSome posts random numbers of receive buffers and requests, possibly none.
func (s *modelEnd) postSome() {
	for s.posted < len(s.peer.expected)+4 && s.posted-s.received < modelSlots && s.rng.IntN(3) > 0 && !s.failed {
		s.e.Recv(uint64(s.posted), slotOf(receiveArea, s.posted), slotBytes)
		s.posted++
	}
	for len(s.ops) < s.todo && len(s.ops)-s.done < modelSlots && s.rng.IntN(4) > 0 && !s.failed {
		s.post()
	}
}

func (s *modelEnd) post() {
	i := len(s.ops)
	kinds := []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd}
	o := modelOp{op: kinds[s.rng.IntN(len(kinds))], size: s.size(), signaled: s.rng.IntN(4) > 0 || i == s.todo-1 || i%8 == 7}
	local, remote := slotOf(sendArea, i), slotOf(targetArea, i)
	wr := verbs.SendWR{ID: uint64(i), Opcode: o.op, Imm: uint32(i), RKey: s.peer.e.MR.RKey()}
	switch o.op {
	case verbs.OpRead:
		local, remote = slotOf(resultArea, i), slotOf(sourceArea, i)
	case verbs.OpFetchAdd:
		o.size, o.before = 8, s.adds
		local, remote = slotOf(resultArea, i), atomicArea
		wr.CompareAdd = 1
		s.adds++
	case verbs.OpCompareSwap:
		o.size, o.before = 8, s.swaps
		local, remote = slotOf(resultArea, i), atomicArea+8
		wr.CompareAdd, wr.Swap = s.swaps, s.swaps+3
		s.swaps += 3
	default:
		fill(s.e.MR.Bytes()[local:][:o.size], uint64(i))
	}
	wr.SGEs = s.pieces(local, o.size)
	wr.RemoteAddr = s.peer.e.MR.Addr() + uint64(remote)
	if o.signaled {
		wr.Flags |= verbs.SendSignaled
	}
	if s.rng.IntN(8) == 0 {
		wr.Flags |= verbs.SendFence
	}
	s.ops = append(s.ops, o)
	if o.op == verbs.OpSend || o.op == verbs.OpSendImm || o.op == verbs.OpWriteImm {
		s.expected = append(s.expected, i)
	}
	s.e.Post(wr)
}

// size returns a random size, mostly within one byte of a multiple of the path MTU,
// where faults are most likely.
func (s *modelEnd) size() int {
	n := s.mtu*s.rng.IntN(6) + s.rng.IntN(3) - 1
	if s.rng.IntN(8) == 0 {
		n = s.mtu * s.rng.IntN(60)
	}
	return min(max(n, 0), slotBytes)
}

// pieces divides a part of the memory at random into one to three SGEs.
func (s *modelEnd) pieces(offset, size int) []verbs.SGE {
	var sges []verbs.SGE
	for len(sges) < 2 && size > 1 && s.rng.IntN(2) == 0 {
		n := s.rng.IntN(size)
		sges = append(sges, verbs.SGEOf(s.e.MR, offset, n))
		offset, size = offset+n, size-n
	}
	return append(sges, verbs.SGEOf(s.e.MR, offset, size))
}

// checkCompletions polls the CQ and checks the completed requests. After a failed
// request, all others must be flushed.
func (s *modelEnd) checkCompletions() {
	for _, wc := range s.e.DrainCQ() {
		t := s.e.T
		switch {
		case wc.Status == verbs.StatusSuccess && wc.Opcode.Receive():
			s.checkMessage(&wc)
		case wc.Status == verbs.StatusSuccess:
			require.False(t, s.failed, "request %d succeeded after one that failed", wc.ID)
			for ; s.done < int(wc.ID); s.done++ {
				require.False(t, s.ops[s.done].signaled, "request %d has no completion", s.done)
				s.check(s.done)
			}
			require.EqualValues(t, s.done, wc.ID, "completions are not in order")
			require.True(t, s.ops[s.done].signaled)
			s.check(s.done)
			s.done++
		case !s.failed:
			s.failed = true
			require.Contains(t, []verbs.Status{verbs.StatusRetryExcErr, verbs.StatusRNRRetryExcErr, verbs.StatusRespTimeoutErr}, wc.Status)
		default:
			require.Equal(t, verbs.StatusWRFlushErr, wc.Status)
		}
	}
}

// checkMessage checks that a received message is the peer's next one, with the right
// length, immediate data and contents.
func (s *modelEnd) checkMessage(wc *verbs.WC) {
	t := s.e.T
	require.EqualValues(t, s.received, wc.ID)
	require.Less(t, s.received, len(s.peer.expected), "a message that the peer did not send")
	i := s.peer.expected[s.received]
	o := s.peer.ops[i]
	require.EqualValues(t, o.size, wc.ByteLen, "message %d, request %d", s.received, i)
	area, slot := receiveArea, s.received
	if o.op == verbs.OpWriteImm {
		area, slot = targetArea, i
	}
	if o.op != verbs.OpSend {
		require.EqualValues(t, i, wc.Imm)
	}
	s.compare(slotOf(area, slot), o.size, i)
	s.received++
}

// check checks the memory that request i has changed. A READ or an atomic changes the
// memory of this end, and a WRITE the memory of the peer.
func (s *modelEnd) check(i int) {
	switch o := s.ops[i]; o.op {
	case verbs.OpWrite, verbs.OpWriteImm:
		s.peer.compare(slotOf(targetArea, i), o.size, i)
	case verbs.OpRead:
		got, want := s.e.MR.Bytes()[slotOf(resultArea, i):], s.peer.e.MR.Bytes()[slotOf(sourceArea, i):]
		require.True(s.e.T, bytes.Equal(got[:o.size], want[:o.size]), "READ %d of %d bytes", i, o.size)
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		got := binary.NativeEndian.Uint64(s.e.MR.Bytes()[slotOf(resultArea, i):])
		require.Equal(s.e.T, o.before, got, "atomic %d", i)
	}
}

// compare checks a part of this end's memory. The peer's request i must have stored its
// data there.
func (s *modelEnd) compare(offset, size, i int) {
	want := make([]byte, size)
	fill(want, uint64(i))
	require.True(s.e.T, bytes.Equal(want, s.e.MR.Bytes()[offset:][:size]), "request %d of %d bytes", i, size)
}
