package providertest

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func writeCases() []testCase {
	return append(sized(writeSize),
		testCase{"gather", writeGather},
		testCase{"inline", writeInline},
		testCase{"zero bytes with an invalid address", writeNothing},
		testCase{"whole region", writeWholeRegion},
		testCase{"a WRITE is visible before the SEND after it", writeBeforeSend},
	)
}

// writeSize checks that a WRITE changes only its bytes and consumes no receive buffer.
func writeSize(r *rig, size int) {
	p := r.pair(roomFor(size))
	fill(p.a.bytes(0, size), 9)
	p.b.recv(1, p.b.sge(0, 0)) // This receive buffer must stay in the queue.
	p.a.post(p.a.remote(verbs.OpWrite, 3, p.b, 100, p.a.sge(0, size)))
	done := p.a.sends.one()
	r.Equal(uint64(3), done.ID)
	r.Equal(verbs.WCWrite, done.Opcode)
	r.True(bytes.Equal(p.a.bytes(0, size), p.b.bytes(100, size)), "the data arrived unchanged")
	p.b.requireZero(0, 100)
	p.b.requireZero(100+size, 4096)
	p.a.post(send(4))
	p.a.sends.one()
	r.Equal(uint64(1), p.b.recvs.one().ID)
}

func writeGather(r *rig) {
	p := r.pair(nil)
	fill(p.a.bytes(0, 20000), 9)
	p.a.post(p.a.remote(verbs.OpWrite, 3, p.b, 7, p.a.sge(1, 5000), p.a.sge(6000, 0), p.a.sge(7000, 3), p.a.sge(9000, 4000)))
	p.a.sends.one()
	want := bytes.Join([][]byte{p.a.bytes(1, 5000), p.a.bytes(7000, 3), p.a.bytes(9000, 4000)}, nil)
	r.True(bytes.Equal(want, p.b.bytes(7, len(want))))
	p.b.requireZero(0, 7)
	p.b.requireZero(7+len(want), 4096)
}

func writeInline(r *rig) {
	p := r.pair(nil)
	payload := filled(p.a.qp.Caps().MaxInline, 5)
	wr := p.a.remote(verbs.OpWrite, 3, p.b, 64)
	wr.Flags |= verbs.SendInline
	wr.Inline = payload
	p.a.post(wr)
	clear(payload)
	p.a.sends.one()
	r.True(bytes.Equal(filled(len(payload), 5), p.b.bytes(64, len(payload))))
	p.b.requireZero(0, 64)
	p.b.requireZero(64+len(payload), 64)
}

// writeNothing posts a WRITE of zero bytes with an invalid key and address. It must
// succeed (IBTA vol. 1, C9-88).
func writeNothing(r *rig) {
	p := r.pair(nil)
	p.a.post(verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: 1, RKey: 2})
	r.Equal(verbs.WCWrite, p.a.sends.one().Opcode)
	p.ping()
}

func writeWholeRegion(r *rig) {
	p := r.pair(nil)
	fill(p.a.bytes(0, memorySize), 4)
	p.a.post(p.a.remote(verbs.OpWrite, 1, p.b, 0, p.a.sge(0, memorySize)))
	p.a.sends.one()
	r.True(bytes.Equal(p.a.mr.Bytes(), p.b.mr.Bytes()))
}

// writeBeforeSend posts a WRITE and a SEND. When the SEND arrives, the written data must
// be there (IBTA vol. 1, 9.5).
func writeBeforeSend(r *rig) {
	p := r.pair(nil)
	for i := range 50 {
		fill(p.a.bytes(0, 10000), uint64(i))
		p.b.recv(1, p.b.sge(20000, 8))
		write := p.a.remote(verbs.OpWrite, 1, p.b, 0, p.a.sge(0, 10000))
		write.Flags = 0
		p.a.post(write, send(2, p.a.sge(0, 8)))
		p.b.recvs.one()
		r.True(bytes.Equal(filled(10000, uint64(i)), p.b.bytes(0, 10000)), "round %d", i)
		p.a.sends.one()
	}
}

func writeImmCases() []testCase {
	return append(cases(faultsOf(verbs.OpWriteImm, WriteImmAccess)),
		testCase{"takes a receive buffer", writeImm},
		testCase{"without payload", writeImmNothing},
	)
}

// writeImm posts a WRITE with immediate data. It must consume a receive buffer, but not
// write to it.
func writeImm(r *rig) {
	p := r.pair(nil)
	for i, size := range []int{1, 4096, 20000} {
		fill(p.a.bytes(0, size), uint64(i))
		p.b.recv(8, p.b.sge(100000, 64))
		wr := p.a.remote(verbs.OpWriteImm, 7, p.b, 64, p.a.sge(0, size))
		wr.Imm = 0xfeedf00d
		p.a.post(wr)
		r.Equal(verbs.WCWrite, p.a.sends.one().Opcode)
		got := p.b.recvs.one()
		r.Equal(verbs.WC{ID: 8, Opcode: verbs.WCRecvWriteImm, Flags: verbs.WCWithImm, Imm: 0xfeedf00d, ByteLen: uint32(size), QPN: p.b.qp.Num()},
			verbs.WC{ID: got.ID, Opcode: got.Opcode, Flags: got.Flags, Imm: got.Imm, ByteLen: got.ByteLen, QPN: got.QPN})
		r.True(bytes.Equal(p.a.bytes(0, size), p.b.bytes(64, size)))
		p.b.requireZero(100000, 64)
	}
}

func writeImmNothing(r *rig) {
	p := r.pair(nil)
	p.b.recv(8)
	p.a.post(verbs.SendWR{ID: 7, Opcode: verbs.OpWriteImm, Flags: verbs.SendSignaled, Imm: 1})
	p.a.sends.one()
	got := p.b.recvs.one()
	r.Equal(verbs.WCRecvWriteImm, got.Opcode)
	r.Zero(got.ByteLen)
	r.Equal(uint32(1), got.Imm)
}
