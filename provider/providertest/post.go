package providertest

import (
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// sge returns an SGE for a part of the end's memory.
func (e *end) sge(offset, length int) verbs.SGE { return verbs.SGEOf(e.mr, offset, length) }

func (e *end) bytes(offset, length int) []byte { return e.mr.Bytes()[offset : offset+length] }

// word returns the 64-bit word at an offset of the end's memory, in the byte order of
// atomics.
func (e *end) word(offset int) uint64 { return binary.NativeEndian.Uint64(e.bytes(offset, 8)) }

func (e *end) setWord(offset int, v uint64) { binary.NativeEndian.PutUint64(e.bytes(offset, 8), v) }

// post posts send requests, which must all be accepted.
func (e *end) post(wrs ...verbs.SendWR) {
	e.r.t.Helper()
	n, err := e.qp.PostSend(wrs)
	e.r.NoError(err)
	e.r.Equal(len(wrs), n)
}

func (e *end) recv(id uint64, sges ...verbs.SGE) {
	e.r.t.Helper()
	n, err := e.qp.PostRecv([]verbs.RecvWR{{ID: id, SGEs: sges}})
	e.r.NoError(err)
	e.r.Equal(1, n)
}

// send returns a signaled SEND request.
func send(id uint64, sges ...verbs.SGE) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: sges}
}

// remote returns a signaled request for memory of another end.
func (e *end) remote(op verbs.Opcode, id uint64, peer *end, offset int, sges ...verbs.SGE) verbs.SendWR {
	return verbs.SendWR{
		ID: id, Opcode: op, Flags: verbs.SendSignaled, SGEs: sges,
		RemoteAddr: peer.mr.Addr() + uint64(offset), RKey: peer.mr.RKey(),
	}
}

// fill fills a slice with bytes that depend on the seed and on their position. So
// misplaced bytes are detected.
func fill(b []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
}

func filled(n int, seed uint64) []byte {
	b := make([]byte, n)
	fill(b, seed)
	return b
}

// requireZero checks that a part of the memory is still zero.
func (e *end) requireZero(offset, length int) {
	e.r.t.Helper()
	for i, b := range e.bytes(offset, length) {
		if b != 0 {
			e.r.FailNow("memory was written", "byte %d beside the buffer", offset+i)
		}
	}
}
