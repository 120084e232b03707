//go:build cgo && linux

package main

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// These constants have the same values in baseline.c.
const (
	buffers     = 32
	signalEvery = 16
)

// An end is one side of the step provider.
type end struct {
	qp   verbs.QP
	cq   verbs.CQ
	mr   verbs.MR
	wcs  [64]verbs.WC
	sent int

	// arguments of PostSend and PostRecv; as local variables they would be allocated on the
	// heap
	sends [1]verbs.SendWR
	recvs [1]verbs.RecvWR
	sge   [1]verbs.SGE
}

// runProvider does in Go what baseline.c does in C.
func runProvider(p cm.Provider, s *spec, side int) ([]uint64, error) {
	e, err := openEnd(p)
	if err != nil {
		return nil, err
	}
	times := make([]uint64, s.Chunks)
	if side == client {
		err = e.post(e.mr.Bytes()[:s.Size])
	}
	for c := 0; c < s.Chunks && err == nil; c++ {
		begin := time.Now()
		for i := 0; i < s.Rounds && err == nil; i++ {
			last := c == s.Chunks-1 && i == s.Rounds-1
			err = e.round(s, side == client && last)
		}
		times[c] = uint64(time.Since(begin))
	}
	return times, err
}

// round waits for a message, and posts its buffer again. It answers the message unless
// the message is the last.
func (e *end) round(s *spec, last bool) error {
	place, err := e.await()
	if err != nil {
		return err
	}
	if !last {
		at := place * slotBytes
		if err := e.post(e.mr.Bytes()[at : at+s.Size]); err != nil {
			return err
		}
	}
	return e.postRecv(place)
}

// await polls until a message arrives, and returns the number of its buffer.
func (e *end) await() (place int, err error) {
	for place = -1; place < 0; {
		n, err := e.cq.Poll(e.wcs[:])
		if err != nil {
			return 0, err
		}
		for i := range e.wcs[:n] {
			if err := e.wcs[i].Err(); err != nil {
				return 0, err
			}
			if e.wcs[i].Opcode == verbs.WCRecv {
				place = int(e.wcs[i].ID)
			}
		}
	}
	return place, nil
}

// post sends a message with SendInline, or with PostSend if SendInline refuses.
func (e *end) post(data []byte) error {
	flags := verbs.SendFlags(0)
	if e.sent++; e.sent%signalEvery == 0 {
		flags = verbs.SendSignaled
	}
	if e.qp.SendInline(0, flags, data) {
		e.qp.Doorbell()
		return nil
	}
	e.sends[0] = verbs.SendWR{Opcode: verbs.OpSend, Flags: flags | verbs.SendInline, Inline: data}
	_, err := e.qp.PostSend(e.sends[:])
	return err
}

// postRecv posts the buffer with the given number.
func (e *end) postRecv(place int) error {
	at := e.mr.Addr() + uint64(place*slotBytes)
	e.sge[0] = verbs.SGE{Addr: at, Length: slotBytes, LKey: e.mr.LKey()}
	e.recvs[0] = verbs.RecvWR{ID: uint64(place), SGEs: e.sge[:]}
	_, err := e.qp.PostRecv(e.recvs[:])
	return err
}

// openEnd creates a connected queue pair with posted receive buffers.
func openEnd(p cm.Provider) (e *end, err error) {
	devices, err := p.Devices()
	if err != nil {
		return nil, err
	}
	e = &end{}
	pd, err := devices[0].AllocPD()
	if err != nil {
		return nil, err
	}
	if e.mr, err = pd.Alloc(&verbs.AllocAttr{Size: buffers * slotBytes, Access: verbs.AccessLocalWrite}); err != nil {
		return nil, err
	}
	if e.cq, err = devices[0].CreateCQ(&verbs.CQAttr{Depth: 256, Progress: verbs.ProgressManual}); err != nil {
		return nil, err
	}
	e.qp, err = pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Caps: verbs.QPCaps{
		MaxSendWR: 64, MaxSendSGE: 1, MaxRecvWR: buffers, MaxRecvSGE: 1, MaxInline: slotBytes,
	}})
	if err != nil {
		return nil, err
	}
	return e, e.connect()
}

// connect posts the receive buffers and moves the queue pair to RTS. The stub uses only
// the states. Package verbs requires the other attributes.
func (e *end) connect() error {
	attr := &verbs.QPAttr{Port: 1, AH: verbs.AHAttr{Port: 1}, PathMTU: verbs.MTU4096, DestQPN: 1}
	for _, step := range []struct {
		to   verbs.QPState
		mask verbs.QPAttrMask
	}{
		{verbs.StateInit, verbs.AttrPort | verbs.AttrAccess},
		{verbs.StateRTR, verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
			verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer},
		{verbs.StateRTS, verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrSQPSN |
			verbs.AttrMaxRdAtomic},
	} {
		attr.State = step.to
		if err := e.qp.Modify(attr, step.mask|verbs.AttrState); err != nil {
			return err
		}
	}
	for place := range buffers {
		if err := e.postRecv(place); err != nil {
			return err
		}
	}
	meet()
	return nil
}
