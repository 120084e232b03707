//go:build linux

package qp

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// DatagramMTU is the largest payload of a datagram in bytes.
const DatagramMTU = 4096

// checkDatagram checks a UD request before it is queued.
func checkDatagram(wr *verbs.SendWR) error {
	if wr.Opcode != verbs.OpSend && wr.Opcode != verbs.OpSendImm {
		return &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "UD queue pairs support only SEND"}
	}
	if a, ok := wr.AH.(*AH); !ok || a.closed.Load() {
		return &verbs.ParamError{Field: "address handle", NotNumber: true, Reason: "missing, closed, or of another provider"}
	}
	if wr.RemoteQPN > verbs.MaxQPNum {
		return &verbs.ParamError{Field: "remote QP number", Value: int64(wr.RemoteQPN), Limit: verbs.MaxQPNum}
	}
	return nil
}

// CheckQueuedDatagram checks a request's length (IBTA vol. 1, 9.8.2.2) and the
// protection domain of its address handle (10.2.2.2).
func (q *QP) CheckQueuedDatagram(w *WQE) verbs.Status {
	switch {
	case w.Total > DatagramMTU:
		return verbs.StatusLocLenErr
	case w.Handle().pd != q.pd:
		return verbs.StatusLocQPOpErr
	}
	return verbs.StatusSuccess
}

// Handle returns the address handle of a UD request; see checkDatagram.
func (w *WQE) Handle() *AH { return w.UD.ah.(*AH) }

// A Datagram is a received UD message.
type Datagram struct {
	QKey      uint32
	Src       uint32 // queue pair number of the sender
	Header    wire.GRH
	HasImm    bool
	Solicited bool
	Imm       uint32
	Payload   []byte
}

// DeliverDatagram delivers a datagram. It drops and counts a datagram with a wrong Q_Key
// (IBTA vol. 1, 9.6.1.4.2) or without a large enough receive buffer.
func (q *QP) DeliverDatagram(d *Datagram) {
	if !q.IsServing() || d.QKey != q.attr.QKey {
		q.Shard.Counts.Inc(counters.RcvdDatagramErr)
		return
	}
	total := uint64(len(d.Header) + len(d.Payload))
	next := q.receiveQueue().peek()
	if next == nil {
		q.Shard.Counts.Inc(counters.OutOfBuffer)
		return
	}
	if uint64(next.size) < uint64(total) || !q.popReceive(&q.buffer) {
		q.Shard.Counts.Inc(counters.RcvdDatagramErr)
		return
	}
	if !q.scatter(d.Header[:], 0) || !q.scatter(d.Payload, uint32(len(d.Header))) {
		q.receiveDone(&verbs.WC{Status: verbs.StatusLocProtErr}, false)
		return
	}
	wc := verbs.WC{Opcode: verbs.WCRecv, Flags: verbs.WCWithGRH, ByteLen: uint32(total), SrcQPN: d.Src}
	if d.HasImm {
		wc.Flags |= verbs.WCWithImm
		wc.Imm = d.Imm
	}
	q.receiveDone(&wc, d.Solicited)
}

// A Destination is what an address handle means on this host.
type Destination struct {
	To     udp.Route // route of datagrams on the wire path; zero on the local path
	Source verbs.GID // source address of datagrams on the local path
}

// OverWire reports whether datagrams use the wire path.
func (d *Destination) OverWire() bool { return d.To.Remote.IsValid() }

// AH implements verbs.AH.
type AH struct {
	Destination
	pd     *pd
	attr   verbs.AHAttr
	closed atomic.Bool
}

// CreateAH implements verbs.PD.
func (p *pd) CreateAH(attr *verbs.AHAttr) (verbs.AH, error) {
	if attr == nil {
		return nil, operr.Wrap("create AH", errNilAttr)
	}
	if p.closed.Load() {
		return nil, operr.Wrap("create AH", verbs.ErrClosed)
	}
	to, err := p.engine.Host.Resolve(attr)
	if err != nil {
		return nil, operr.Wrap("create AH", err)
	}
	p.refs.Add(1)
	return &AH{Destination: to, pd: p, attr: *attr}, nil
}

// Attr implements verbs.AH.
func (a *AH) Attr() verbs.AHAttr { return a.attr }

// Close implements verbs.AH.
func (a *AH) Close() error {
	if !a.closed.Swap(true) {
		a.pd.refs.Add(-1)
	}
	return nil
}
