package providertest

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func udCases() []testCase {
	return []testCase{
		{"lookup and send", udSend},
		{"immediate", udImmediate},
		{"reply to the sender", udReply},
		{"without a lookup", udBare},
		{"wrong Q_Key", udWrongQKey},
		{"no buffer", udNoBuffer},
		{"unknown queue pair", udUnknownQP},
		{"longer than the path MTU", udTooLong},
		{"gather, inline, scatter", udPieces},
		{"operations that UD does not have", udImpossible},
		{"handle of another domain", udForeignHandle},
		{"flush", udFlush},
	}
}

// qkey is the Q_Key of UD queue pairs without an ID.
const qkey = 0x11223344

// A datagrams is a pair with UD queue pairs. End a knows the address, queue pair number
// and Q_Key of end b.
type datagrams struct {
	*pair
	ah  verbs.AH
	to  cm.UDParam
	mtu int
	// size of a receive buffer in bytes: the GRH and the largest datagram
	slot int
}

// lookup creates both queue pairs on IDs. End a sends a request to the port of end b's
// listener. The answer has the number and Q_Key of end b's queue pair. Source:
// rdma_connect(3), RDMA_PS_UDP.
func (r *rig) lookup() *datagrams {
	r.t.Helper()
	a, b := r.plans()
	listener := r.listen(cm.UDP)
	d := &datagrams{pair: &pair{rig: r, a: r.newEnd(&a), b: r.newEnd(&b)}}
	d.a.id = r.resolve(cm.UDP, listener.LocalAddr())
	d.a.createQP(&a)
	r.NoError(d.a.id.Connect(&cm.ConnParam{}))
	d.b.id = r.await(listener, cm.ConnectRequest).id
	r.closing("passive id", d.b.id.Close)
	d.b.createQP(&b)
	r.NoError(d.b.id.Accept(&cm.ConnParam{}))
	d.to = r.await(d.a.id, cm.Established).ud

	r.Equal(d.b.qp.Num(), d.to.QPN)
	r.Equal(uint32(cm.DefaultQKey), d.to.QKey)
	r.Equal(verbs.StateRTS, d.a.qp.State())
	r.Equal(verbs.StateRTS, d.b.qp.State())
	d.ah = r.newAH(r.pd, d.to.AH)
	d.measure()
	r.t.Cleanup(r.noCompletionsLeft)
	return d
}

func (d *datagrams) measure() {
	port, err := d.dev.Port(d.port)
	d.NoError(err)
	d.mtu = port.ActiveMTU.Bytes()
	d.slot = verbs.GRHSize + d.mtu
}

func (r *rig) newAH(pd verbs.PD, attr verbs.AHAttr) verbs.AH {
	r.t.Helper()
	ah, err := pd.CreateAH(&attr)
	r.NoError(err)
	r.closing("AH", ah.Close)
	return ah
}

// datagram returns the request for a signaled SEND from end a to end b.
func (d *datagrams) datagram(id uint64, sges ...verbs.SGE) verbs.SendWR {
	wr := send(id, sges...)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = d.ah, d.to.QPN, d.to.QKey
	return wr
}

// arrived takes the completion of a datagram of n bytes at end b.
func (d *datagrams) arrived(id uint64, n int) verbs.WC {
	d.t.Helper()
	got := d.b.recvs.one()
	want := verbs.WC{ID: id, Opcode: verbs.WCRecv, QPN: d.b.qp.Num(), SrcQPN: d.a.qp.Num(), ByteLen: uint32(verbs.GRHSize + n)}
	d.Equal(want, verbs.WC{ID: got.ID, Opcode: got.Opcode, QPN: got.QPN, SrcQPN: got.SrcQPN, ByteLen: got.ByteLen})
	d.NotZero(got.Flags & verbs.WCWithGRH)
	return got
}

func udSend(r *rig) {
	d := r.lookup()
	for i, size := range []int{0, 1, 64, d.mtu} {
		fill(d.a.bytes(0, size), uint64(i))
		d.b.recv(7, d.b.sge(0, d.slot))
		d.a.post(d.datagram(8, d.a.sge(0, size)))
		r.Equal(verbs.WCSend, d.a.sends.one().Opcode)
		d.arrived(7, size)
		r.True(bytes.Equal(d.a.bytes(0, size), d.b.bytes(verbs.GRHSize, size)))
		d.b.requireZero(d.slot, 64)
	}
}

func udImmediate(r *rig) {
	d := r.lookup()
	d.b.recv(1, d.b.sge(0, d.slot))
	wr := d.datagram(2, d.a.sge(0, 10))
	wr.Opcode, wr.Imm = verbs.OpSendImm, 0xcafebabe
	d.a.post(wr)
	d.a.sends.one()
	got := d.arrived(1, 10)
	r.NotZero(got.Flags & verbs.WCWithImm)
	r.Equal(uint32(0xcafebabe), got.Imm)
}

// udReply answers a datagram. It gets the number of the peer's queue pair from the
// completion of the datagram.
func udReply(r *rig) {
	d := r.lookup()
	d.b.recv(1, d.b.sge(0, d.slot))
	d.a.recv(2, d.a.sge(0, d.slot))
	d.a.post(d.datagram(3, d.a.sge(0, 8)))
	d.a.sends.one()
	got := d.arrived(1, 8)

	reply := send(4, d.b.sge(0, 8))
	reply.AH = r.newAH(r.pd, verbs.AHAttr{DestGID: verbs.GIDFromAddr(d.a.id.LocalAddr().Addr()), Port: r.port, SourceIndex: r.gid, HopLimit: 64})
	reply.RemoteQPN, reply.RemoteQKey = got.SrcQPN, cm.DefaultQKey
	d.b.post(reply)
	d.b.sends.one()
	back := d.a.recvs.one()
	r.Equal(uint64(2), back.ID)
	r.Equal(d.b.qp.Num(), back.SrcQPN)
}

// bareDatagrams creates two UD queue pairs without IDs.
func (r *rig) bareDatagrams() *datagrams {
	r.t.Helper()
	d := &datagrams{pair: &pair{rig: r, a: r.bare(verbs.QPTypeUD), b: r.bare(verbs.QPTypeUD)}}
	for _, e := range []*end{d.a, d.b} {
		e.toInit()
		e.toState(verbs.StateRTR)
		e.modify(verbs.AttrState|verbs.AttrSQPSN, verbs.QPAttr{State: verbs.StateRTS})
	}
	d.to = cm.UDParam{QPN: d.b.qp.Num(), QKey: qkey}
	d.ah = r.newAH(r.pd, verbs.AHAttr{DestGID: verbs.GIDFromAddr(r.opts.Addr), Port: r.port, SourceIndex: r.gid, HopLimit: 64})
	d.measure()
	r.t.Cleanup(r.noCompletionsLeft)
	return d
}

func udBare(r *rig) {
	d := r.bareDatagrams()
	for i := range 16 {
		d.b.recv(uint64(i), d.b.sge(i*d.slot, d.slot))
		d.a.setWord(8*i, uint64(i))
		d.a.post(d.datagram(uint64(i), d.a.sge(8*i, 8)))
		d.a.sends.one()
		d.arrived(uint64(i), 8)
		r.Equal(uint64(i), d.b.word(i*d.slot+verbs.GRHSize))
	}
}

// marker sends a datagram. It must arrive in the receive buffer recvID, and no other
// datagram may arrive. Datagrams arrive in order, so a datagram that was sent before the
// marker can not arrive after it.
func (d *datagrams) marker(recvID uint64) {
	d.t.Helper()
	d.a.post(d.datagram(99, d.a.sge(0, 8)))
	d.Equal(uint64(99), d.a.sends.one().ID)
	d.arrived(recvID, 8)
	d.Empty(d.b.recvs.wcs)
}

// udWrongQKey sends a datagram with a wrong Q_Key. The receiver must drop it (IBTA vol.
// 1, 10.2.5).
func udWrongQKey(r *rig) {
	d := r.lookup()
	d.b.recv(1, d.b.sge(0, d.slot))
	wr := d.datagram(5, d.a.sge(0, 64))
	wr.RemoteQKey++
	d.a.post(wr)
	r.Equal(uint64(5), d.a.sends.one().ID)
	d.marker(1)
}

// udNoBuffer sends datagrams without a receive buffer. They may be lost, but a datagram
// after the posting of buffers must arrive.
func udNoBuffer(r *rig) {
	const last = 3
	d := r.lookup()
	numbered := func(i int) verbs.SendWR {
		d.a.setWord(8*i, uint64(i))
		return d.datagram(uint64(i), d.a.sge(8*i, 8))
	}
	d.a.post(numbered(1), numbered(2))
	d.a.sends.inOrder(1, 2)
	for i := range last {
		d.b.recv(uint64(i), d.b.sge(i*d.slot, d.slot))
	}
	d.a.post(numbered(last))
	d.a.sends.inOrder(last)
	for i, seen := 0, uint64(0); seen != last; i++ {
		d.arrived(uint64(i), 8)
		now := d.b.word(i*d.slot + verbs.GRHSize)
		r.Greater(now, seen)
		seen = now
	}
}

func udUnknownQP(r *rig) {
	d := r.lookup()
	d.b.recv(1, d.b.sge(0, d.slot))
	wr := d.datagram(5, d.a.sge(0, 64))
	wr.RemoteQPN ^= 1
	d.a.post(wr)
	r.Equal(uint64(5), d.a.sends.one().ID, "the sender does not learn of the loss")
	d.marker(1)
}

// udTooLong posts a datagram longer than the path MTU. The call or the request must fail,
// and nothing may be sent.
func udTooLong(r *rig) {
	d := r.lookup()
	n, err := d.a.qp.PostSend([]verbs.SendWR{d.datagram(5, d.a.sge(0, d.mtu+1))})
	if err == nil {
		r.Equal(1, n)
		d.a.sends.fail(verbs.StatusLocLenErr, d.a.qp, 5)
		return
	}
	r.Zero(n)
	d.b.recv(1, d.b.sge(0, d.slot))
	d.marker(1)
}

func udPieces(r *rig) {
	d := r.lookup()
	fill(d.a.bytes(0, 1000), 1)
	d.b.recv(1, d.b.sge(0, 20), d.b.sge(100, 30), d.b.sge(200, 100))
	d.a.post(d.datagram(2, d.a.sge(0, 30), d.a.sge(100, 50)))
	d.a.sends.one()
	d.arrived(1, 80)
	sent := bytes.Join([][]byte{d.a.bytes(0, 30), d.a.bytes(100, 50)}, nil)
	got := bytes.Join([][]byte{d.b.bytes(0, 20), d.b.bytes(100, 30), d.b.bytes(200, 100)}, nil)
	r.True(bytes.Equal(sent, got[verbs.GRHSize:verbs.GRHSize+80]))

	payload := filled(d.a.qp.Caps().MaxInline, 3)
	d.b.recv(3, d.b.sge(0, d.slot))
	wr := d.datagram(4)
	wr.Flags |= verbs.SendInline
	wr.Inline = bytes.Clone(payload)
	d.a.post(wr)
	clear(wr.Inline)
	d.a.sends.one()
	d.arrived(3, len(payload))
	r.True(bytes.Equal(payload, d.b.bytes(verbs.GRHSize, len(payload))))
}

func udImpossible(r *rig) {
	d := r.lookup()
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd,
		verbs.OpLocalInv, verbs.OpBindMW, verbs.OpSendInv} {
		wr := d.datagram(1, d.a.sge(0, 8))
		wr.Opcode, wr.RemoteAddr, wr.RKey = op, d.b.mr.Addr(), d.b.mr.RKey()
		n, err := d.a.qp.PostSend([]verbs.SendWR{wr})
		r.Error(err, "%v", op)
		r.Zero(n)
	}
	wr := d.datagram(1, d.a.sge(0, 8))
	wr.AH = nil
	_, err := d.a.qp.PostSend([]verbs.SendWR{wr})
	r.Error(err, "no address handle")
	d.b.recv(1, d.b.sge(0, d.slot))
	d.marker(1)
}

func udForeignHandle(r *rig) {
	d := r.lookup()
	wr := d.datagram(1, d.a.sge(0, 8))
	wr.AH = r.newAH(r.newPD(), d.to.AH)
	n, err := d.a.qp.PostSend([]verbs.SendWR{wr})
	if err == nil {
		// Some devices report a wrong protection domain only in the completion (IBTA vol.
		// 1, 10.2.2.2).
		r.Equal(1, n)
		d.a.sends.fail(verbs.StatusLocQPOpErr, d.a.qp, 1)
		return
	}
	r.ErrorIs(err, verbs.ErrForeign)
	d.b.recv(1, d.b.sge(0, d.slot))
	d.marker(1)
}

func udFlush(r *rig) {
	d := r.lookup()
	for i := range 4 {
		d.b.recv(uint64(i), d.b.sge(0, d.slot))
	}
	d.b.toState(verbs.StateError)
	d.b.recv(4, d.b.sge(0, d.slot))
	d.b.recvs.fail(verbs.StatusWRFlushErr, d.b.qp, sequence(0, 5)...)
	d.b.post(d.datagram(9, d.b.sge(0, 8)))
	d.b.sends.fail(verbs.StatusWRFlushErr, d.b.qp, 9)
}
