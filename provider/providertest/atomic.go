package providertest

import (
	"math"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func atomicCases() []testCase {
	return []testCase{
		{"compare and swap", compareSwap},
		{"fetch and add", fetchAdd},
		{"result in two pieces", atomicScatter},
		{"more than the initiator depth", atomicMany},
		{"two writers", atomicContention},
	}
}

// cas returns a compare-and-swap of a word in the peer's memory. The parameter
// into is an offset in the memory of e, at which the device stores the old value.
func (e *end) cas(id uint64, peer *end, offset, into int, compare, swap uint64) verbs.SendWR {
	wr := e.remote(verbs.OpCompareSwap, id, peer, offset, e.sge(into, 8))
	wr.CompareAdd, wr.Swap = compare, swap
	return wr
}

func (e *end) faa(id uint64, peer *end, offset, into int, add uint64) verbs.SendWR {
	wr := e.remote(verbs.OpFetchAdd, id, peer, offset, e.sge(into, 8))
	wr.CompareAdd = add
	return wr
}

func compareSwap(r *rig) {
	p := r.pair(nil)
	p.b.setWord(64, 10)
	for _, c := range []struct{ compare, swap, after uint64 }{
		{9, 99, 10},
		{10, 0xfedcba9876543210, 0xfedcba9876543210},
		{0x76543210, 1, 0xfedcba9876543210},
		{0xfedcba9876543210, 0, 0},
	} {
		before := p.b.word(64)
		p.a.post(p.a.cas(4, p.b, 64, 128, c.compare, c.swap))
		r.Equal(verbs.WCCompareSwap, p.a.sends.one().Opcode)
		r.Equal(before, p.a.word(128), "the old value, also when the comparison fails")
		r.Equal(c.after, p.b.word(64))
	}
	for _, e := range []*end{p.a, p.b} {
		e.requireZero(0, 64)
		e.requireZero(136, 64)
	}
}

func fetchAdd(r *rig) {
	p := r.pair(nil)
	want := uint64(0)
	for _, add := range []uint64{5, 0, 1 << 40, math.MaxUint64 - 3, math.MaxUint64} {
		p.a.post(p.a.faa(4, p.b, 64, 128, add))
		done := p.a.sends.one()
		r.Equal(verbs.WCFetchAdd, done.Opcode)
		r.Equal(want, p.a.word(128))
		want += add
		r.Equal(want, p.b.word(64), "sums wrap around")
	}
	p.b.requireZero(0, 64)
	p.b.requireZero(72, 64)
}

func atomicScatter(r *rig) {
	p := r.pair(nil)
	p.b.setWord(0, 0x0807060504030201)
	wr := p.a.remote(verbs.OpFetchAdd, 1, p.b, 0, p.a.sge(0, 3), p.a.sge(100, 5))
	p.a.post(wr)
	p.a.sends.one()
	r.Equal(p.b.bytes(0, 3), p.a.bytes(0, 3))
	r.Equal(p.b.bytes(3, 5), p.a.bytes(100, 5))
	p.a.requireZero(3, 97)
}

func atomicMany(r *rig) {
	p := r.pair(func(a, b *plan) { a.param.InitiatorDepth, b.param.ResponderResources = 1, 1 })
	for i := range 32 {
		p.a.post(p.a.faa(uint64(i), p.b, 0, 8*i, 1))
	}
	p.a.sends.inOrder(sequence(0, 32)...)
	for i := range 32 {
		r.Equal(uint64(i), p.a.word(8*i))
	}
	r.Equal(uint64(32), p.b.word(0))
}

// atomicContention adds 1 to one word over two connections at once. Each old value may be
// returned only once.
func atomicContention(r *rig) {
	const rounds, batch = 25, 16
	p, q := r.pair(nil), r.pair(func(a, b *plan) { a.vector, b.vector = b.vector, a.vector })
	seen := map[uint64]bool{}
	for range rounds {
		for i := range batch {
			p.a.post(p.a.faa(uint64(i), p.b, 0, 8*i, 1))
			wr := q.a.faa(uint64(i), q.b, 0, 8*i, 1)
			wr.RemoteAddr, wr.RKey = p.b.mr.Addr(), p.b.mr.RKey()
			q.a.post(wr)
		}
		for _, e := range []*end{p.a, q.a} {
			e.sends.succeed(batch)
			for i := range batch {
				r.False(seen[e.word(8*i)], "old value %d twice", e.word(8*i))
				seen[e.word(8*i)] = true
			}
		}
	}
	r.Equal(uint64(2*rounds*batch), p.b.word(0))
}
