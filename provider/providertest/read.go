package providertest

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func readCases() []testCase {
	return append(sized(readSize),
		testCase{"scatter", readScatter},
		testCase{"zero bytes with an invalid address", readNothing},
		testCase{"more than the initiator depth", readMany},
		testCase{"both directions at once", readBothWays},
		testCase{"a fence waits for the READ", readFence},
		testCase{"a READ returns the data of the WRITE before it", readAfterWrite},
	)
}

func readSize(r *rig, size int) {
	p := r.pair(roomFor(size))
	fill(p.b.bytes(100, size), 9)
	p.a.post(p.a.remote(verbs.OpRead, 3, p.b, 100, p.a.sge(64, size)))
	done := p.a.sends.one()
	r.Equal(verbs.WC{ID: 3, Opcode: verbs.WCRead, ByteLen: uint32(size), QPN: p.a.qp.Num()},
		verbs.WC{ID: done.ID, Opcode: done.Opcode, ByteLen: done.ByteLen, QPN: done.QPN})
	r.True(bytes.Equal(p.b.bytes(100, size), p.a.bytes(64, size)), "the data arrived unchanged")
	p.a.requireZero(0, 64)
	p.a.requireZero(64+size, 4096)
}

func readScatter(r *rig) {
	p := r.pair(nil)
	fill(p.b.bytes(0, 20000), 2)
	p.a.post(p.a.remote(verbs.OpRead, 1, p.b, 50, p.a.sge(0, 3), p.a.sge(100, 0), p.a.sge(200, 9000), p.a.sge(30000, 1000)))
	r.Equal(uint32(10003), p.a.sends.one().ByteLen)
	got := bytes.Join([][]byte{p.a.bytes(0, 3), p.a.bytes(200, 9000), p.a.bytes(30000, 1000)}, nil)
	r.True(bytes.Equal(p.b.bytes(50, 10003), got))
	p.a.requireZero(3, 197)
	p.a.requireZero(9200, 4096)
	p.a.requireZero(31000, 4096)
}

func readNothing(r *rig) {
	p := r.pair(nil)
	p.a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: 1, RKey: 2})
	done := p.a.sends.one()
	r.Equal(verbs.WCRead, done.Opcode)
	r.Zero(done.ByteLen)
	p.ping()
}

// readMany posts more READs than may be outstanding. The device must delay some, and
// complete all in order.
func readMany(r *rig) {
	p := r.pair(func(a, b *plan) { a.param.InitiatorDepth, b.param.ResponderResources = 1, 1 })
	fill(p.b.bytes(0, 32*5000), 6)
	for i := range 32 {
		p.a.post(p.a.remote(verbs.OpRead, uint64(i), p.b, i*5000, p.a.sge(i*5000, 5000)))
	}
	p.a.sends.inOrder(sequence(0, 32)...)
	r.True(bytes.Equal(p.b.bytes(0, 32*5000), p.a.bytes(0, 32*5000)))
}

func readBothWays(r *rig) {
	p := r.pair(nil)
	const size = 8000
	for _, e := range []*end{p.a, p.b} {
		fill(e.bytes(0, 16*size), uint64(e.qp.Num()))
	}
	for i := range 16 {
		p.a.post(p.a.remote(verbs.OpRead, uint64(i), p.b, i*size, p.a.sge(128<<10+i*size/2, size/2)))
		p.b.post(p.b.remote(verbs.OpRead, uint64(i), p.a, i*size, p.b.sge(128<<10+i*size/2, size/2)))
	}
	p.a.sends.inOrder(sequence(0, 16)...)
	p.b.sends.inOrder(sequence(0, 16)...)
	for i := range 16 {
		r.True(bytes.Equal(p.b.bytes(i*size, size/2), p.a.bytes(128<<10+i*size/2, size/2)))
		r.True(bytes.Equal(p.a.bytes(i*size, size/2), p.b.bytes(128<<10+i*size/2, size/2)))
	}
}

// readFence posts a READ and a fenced SEND of the same memory. The SEND must have the new
// data (ibv_post_send(3), IBV_SEND_FENCE).
func readFence(r *rig) {
	p := r.pair(nil)
	for i := range 20 {
		const size = 16384
		fill(p.b.bytes(0, size), uint64(i))
		clear(p.a.bytes(0, size))
		p.b.recv(5, p.b.sge(size, size))
		wr := send(2, p.a.sge(0, size))
		wr.Flags |= verbs.SendFence
		p.a.post(p.a.remote(verbs.OpRead, 1, p.b, 0, p.a.sge(0, size)), wr)
		p.a.sends.inOrder(1, 2)
		p.b.recvs.one()
		r.True(bytes.Equal(p.b.bytes(0, size), p.b.bytes(size, size)), "round %d", i)
	}
}

// readAfterWrite posts a WRITE and a READ of the same memory. The READ must return the
// written data (IBTA vol. 1, 10.8.3.3, table 79).
func readAfterWrite(r *rig) {
	p := r.pair(nil)
	for i := range 20 {
		fill(p.a.bytes(0, 9000), uint64(i))
		write := p.a.remote(verbs.OpWrite, 1, p.b, 0, p.a.sge(0, 9000))
		p.a.post(write, p.a.remote(verbs.OpRead, 2, p.b, 0, p.a.sge(10000, 9000)))
		p.a.sends.inOrder(1, 2)
		r.True(bytes.Equal(p.a.bytes(0, 9000), p.a.bytes(10000, 9000)), "round %d", i)
	}
}
