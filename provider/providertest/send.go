package providertest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// sizes returns message sizes: small ones, sizes near a page, and messages of many
// packets.
func sizes() []int { return []int{0, 1, 64, 4095, 4096, 4097, 64 << 10, 1 << 20} }

// sized returns a case for each message size.
func sized(run func(r *rig, size int)) []testCase {
	var cases []testCase
	for _, size := range sizes() {
		cases = append(cases, testCase{fmt.Sprintf("%d bytes", size), func(r *rig) { run(r, size) }})
	}
	return cases
}

func sendCases() []testCase {
	return append(sized(sendSize),
		testCase{"immediate", sendImmediate},
		testCase{"gather and scatter", gatherScatter},
		testCase{"inline", sendInline},
		testCase{"inline too long", inlineTooLong},
		testCase{"into a larger buffer", sendIntoLarger},
		testCase{"unsignaled", sendUnsignaled},
		testCase{"all signaled", sendAllSignaled},
		testCase{"both directions at once", sendBothWays},
		testCase{"memory may be reused after the completion", sendReuse},
		testCase{"time", sendTimed},
	)
}

// roomFor returns a parameter for rig.pair. It gives both ends enough memory for messages
// of this size.
func roomFor(size int) func(a, b *plan) {
	return func(a, b *plan) { a.memory, b.memory = size+8192, size+8192 }
}

func sendSize(r *rig, size int) {
	const offset = 128
	p := r.pair(roomFor(size))
	fill(p.a.bytes(offset, size), 1)
	p.b.recv(5, p.b.sge(offset, size))
	p.a.post(send(6, p.a.sge(offset, size)))
	sent, got := p.a.sends.one(), p.b.recvs.one()
	r.Equal(verbs.WC{ID: 6, Opcode: verbs.WCSend, QPN: p.a.qp.Num()}, verbs.WC{ID: sent.ID, Opcode: sent.Opcode, QPN: sent.QPN})
	r.Equal(verbs.WC{ID: 5, Opcode: verbs.WCRecv, QPN: p.b.qp.Num(), ByteLen: uint32(size)},
		verbs.WC{ID: got.ID, Opcode: got.Opcode, Flags: got.Flags, QPN: got.QPN, ByteLen: got.ByteLen})
	r.True(bytes.Equal(filled(size, 1), p.b.bytes(offset, size)), "the data arrived unchanged")
	p.b.requireZero(0, offset)
	p.b.requireZero(offset+size, 4096)
}

// sendTimed checks WC.Time. A device with Caps.RecvTime may not know it of every peer.
func sendTimed(r *rig) {
	p := r.pair(func(_, b *plan) { b.recvTime = true })
	for _, size := range []int{10, 10000} {
		p.b.recv(1, p.b.sge(0, size))
		p.a.recv(2, p.a.sge(0, size))
		before := time.Now().UnixNano()
		p.a.post(send(3, p.a.sge(0, size)))
		got := p.b.recvs.one()
		r.Equal(r.opts.RecvTime, got.Time != 0)
		if got.Time != 0 {
			r.True(r.dev.Caps().RecvTime)
			r.GreaterOrEqual(got.Time, before)
			r.LessOrEqual(got.Time, time.Now().UnixNano())
		}
		p.b.post(send(4, p.b.sge(0, size)))
		r.Zero(p.a.recvs.one().Time, "the queue pair does not have RecvTime")
		r.Zero(p.a.sends.one().Time)
		r.Zero(p.b.sends.one().Time)
	}
}

func sendImmediate(r *rig) {
	p := r.pair(nil)
	for i, size := range []int{0, 100, 10000} {
		imm := 0xdeadbeef + uint32(i)
		fill(p.a.bytes(0, size), uint64(i))
		p.b.recv(1, p.b.sge(0, size))
		wr := send(2, p.a.sge(0, size))
		wr.Opcode, wr.Imm = verbs.OpSendImm, imm
		p.a.post(wr)
		r.Equal(verbs.WCSend, p.a.sends.one().Opcode)
		got := p.b.recvs.one()
		r.Equal(verbs.WCRecv, got.Opcode)
		r.Equal(verbs.WCWithImm, got.Flags)
		r.Equal(imm, got.Imm)
		r.Equal(uint32(size), got.ByteLen)
		r.True(bytes.Equal(p.a.bytes(0, size), p.b.bytes(0, size)))
	}
}

// gatherScatter sends four pieces of memory to three pieces of other lengths. One piece
// is empty.
func gatherScatter(r *rig) {
	p := r.pair(nil)
	fill(p.a.bytes(0, 65536), 3)
	p.a.post() // A call without any request must succeed.
	p.b.recv(1, p.b.sge(10, 5), p.b.sge(1000, 9000), p.b.sge(20000, 7000))
	p.a.post(send(2, p.a.sge(100, 7000), p.a.sge(0, 0), p.a.sge(30000, 1), p.a.sge(40000, 6000)))
	p.a.sends.one()
	r.Equal(uint32(13001), p.b.recvs.one().ByteLen)
	sent := bytes.Join([][]byte{p.a.bytes(100, 7000), p.a.bytes(30000, 1), p.a.bytes(40000, 6000)}, nil)
	got := bytes.Join([][]byte{p.b.bytes(10, 5), p.b.bytes(1000, 9000), p.b.bytes(20000, 7000)}, nil)
	r.True(bytes.Equal(sent, got[:13001]))
	p.b.requireZero(0, 10)
	p.b.requireZero(15, 985)
	p.b.requireZero(20000+3996, 4096)
}

// sendInline overwrites the payload after PostSend. The receiver must get the old
// payload.
func sendInline(r *rig) {
	p := r.pair(nil)
	limit := p.a.qp.Caps().MaxInline
	for i, size := range []int{0, min(1, limit), limit} {
		payload := filled(size, uint64(i))
		p.b.recv(1, p.b.sge(0, 4096))
		wr := verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: payload}
		p.a.post(wr)
		clear(payload)
		p.a.sends.one()
		r.Equal(uint32(size), p.b.recvs.one().ByteLen)
		r.True(bytes.Equal(filled(size, uint64(i)), p.b.bytes(0, size)))
	}
}

func inlineTooLong(r *rig) {
	p := r.pair(nil)
	n, err := p.a.qp.PostSend([]verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: make([]byte, p.a.qp.Caps().MaxInline+1),
	}})
	r.Zero(n)
	r.requireParamError(err, "inline")
	p.ping()
}

func sendIntoLarger(r *rig) {
	p := r.pair(nil)
	fill(p.a.bytes(0, 100), 1)
	p.b.recv(1, p.b.sge(0, 50), p.b.sge(100, 5000))
	p.a.post(send(2, p.a.sge(0, 100)))
	p.a.sends.one()
	r.Equal(uint32(100), p.b.recvs.one().ByteLen)
	r.True(bytes.Equal(p.a.bytes(0, 50), p.b.bytes(0, 50)))
	r.True(bytes.Equal(p.a.bytes(50, 50), p.b.bytes(100, 50)))
	p.b.requireZero(150, 4950)
}

// sendUnsignaled posts ten requests. Only the last is signaled, so only the last may have
// a completion.
func sendUnsignaled(r *rig) {
	p := r.pair(nil)
	for i := range 10 {
		p.b.recv(uint64(i), p.b.sge(64*i, 64))
	}
	for i := range 10 {
		wr := send(uint64(i), p.a.sge(0, 64))
		if i < 9 {
			wr.Flags = 0
		}
		p.a.post(wr)
	}
	r.Equal(uint64(9), p.a.sends.one().ID)
	r.Len(p.b.recvs.succeed(10), 10)
}

func sendAllSignaled(r *rig) {
	p := r.pair(func(a, _ *plan) { a.signalAll = true })
	p.b.recv(1, p.b.sge(0, 64))
	wr := send(2, p.a.sge(0, 64))
	wr.Flags = 0
	p.a.post(wr)
	r.Equal(uint64(2), p.a.sends.one().ID)
	p.b.recvs.one()
}

// ping sends one message in each direction.
func (p *pair) ping() {
	p.t.Helper()
	for _, way := range [][2]*end{{p.a, p.b}, {p.b, p.a}} {
		from, to := way[0], way[1]
		fill(from.bytes(512, 100), 77)
		clear(to.bytes(1024, 100))
		to.recv(1001, to.sge(1024, 100))
		from.post(send(1002, from.sge(512, 100)))
		p.Equal(uint64(1002), from.sends.one().ID)
		p.Equal(uint64(1001), to.recvs.one().ID)
		p.True(bytes.Equal(from.bytes(512, 100), to.bytes(1024, 100)))
	}
}

func sendBothWays(r *rig) {
	p := r.pair(nil)
	for _, e := range []*end{p.a, p.b} {
		fill(e.bytes(0, 32768), uint64(e.qp.Num()))
		e.recv(1, e.sge(65536, 32768))
	}
	p.a.post(send(2, p.a.sge(0, 32768)))
	p.b.post(send(2, p.b.sge(0, 32768)))
	for _, e := range []*end{p.a, p.b} {
		e.sends.one()
		e.recvs.one()
	}
	r.True(bytes.Equal(p.a.bytes(0, 32768), p.b.bytes(65536, 32768)))
	r.True(bytes.Equal(p.b.bytes(0, 32768), p.a.bytes(65536, 32768)))
}

// sendReuse overwrites the send buffer after the completion. The receiver must get the
// old data.
func sendReuse(r *rig) {
	p := r.pair(nil)
	for i := range 8 {
		p.b.recv(uint64(i), p.b.sge(i*8192, 8192))
	}
	for i := range 8 {
		fill(p.a.bytes(0, 8192), uint64(i))
		p.a.post(send(uint64(i), p.a.sge(0, 8192)))
		p.a.sends.one()
		clear(p.a.bytes(0, 8192))
	}
	p.b.recvs.succeed(8)
	for i := range 8 {
		r.True(bytes.Equal(filled(8192, uint64(i)), p.b.bytes(i*8192, 8192)), "message %d", i)
	}
}
