//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the UD parts of the requester and the responder.

// datagramMTU is the largest payload of a datagram in bytes.
const datagramMTU = 4096

// checkDatagram checks a UD request before it is queued.
func checkDatagram(wr *verbs.SendWR) error {
	if wr.Opcode != verbs.OpSend && wr.Opcode != verbs.OpSendImm {
		return &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "UD queue pairs support only SEND"}
	}
	if a, ok := wr.AH.(*ah); !ok || a.closed.Load() {
		return &verbs.ParamError{Field: "address handle", NotNumber: true, Reason: "missing, closed, or of another provider"}
	}
	if wr.RemoteQPN > verbs.MaxQPNum {
		return &verbs.ParamError{Field: "remote QP number", Value: int64(wr.RemoteQPN), Limit: verbs.MaxQPNum}
	}
	return nil
}

// checkQueuedDatagram checks a request's length (IBTA vol. 1, 9.8.2.2) and the
// protection domain of its address handle (10.2.2.2).
func (q *qp) checkQueuedDatagram(w *wqe) verbs.Status {
	switch {
	case w.total > datagramMTU:
		return verbs.StatusLocLenErr
	case w.handle().pd != q.pd:
		return verbs.StatusLocQPOpErr
	}
	return verbs.StatusSuccess
}

// handle returns the address handle of a UD request; see checkDatagram.
func (w *wqe) handle() *ah { return w.ud.ah.(*ah) }

// A datagram is a received UD message.
type datagram struct {
	qkey      uint32
	src       uint32 // queue pair number of the sender
	header    wire.GRH
	hasImm    bool
	solicited bool
	imm       uint32
	payload   []byte
}

// deliverDatagram delivers a datagram. It drops and counts a datagram with a wrong Q_Key
// (IBTA vol. 1, 9.6.1.4.2) or without a large enough receive buffer.
func (q *qp) deliverDatagram(d *datagram) {
	if !q.isServing() || d.qkey != q.attr.QKey {
		q.shard.counts.Inc(counters.RcvdDatagramErr)
		return
	}
	total := uint64(len(d.header) + len(d.payload))
	next := q.receiveQueue().peek()
	if next == nil {
		q.shard.counts.Inc(counters.OutOfBuffer)
		return
	}
	if uint64(next.size) < uint64(total) || !q.popReceive(&q.buffer) {
		q.shard.counts.Inc(counters.RcvdDatagramErr)
		return
	}
	if !q.scatter(d.header[:], 0) || !q.scatter(d.payload, uint32(len(d.header))) {
		q.receiveDone(&verbs.WC{Status: verbs.StatusLocProtErr}, false)
		return
	}
	wc := verbs.WC{Opcode: verbs.WCRecv, Flags: verbs.WCWithGRH, ByteLen: uint32(total), SrcQPN: d.src}
	if d.hasImm {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = d.imm
	}
	q.receiveDone(&wc, d.solicited)
}
