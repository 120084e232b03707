//go:build linux

package qp

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// srq implements verbs.SRQ. It belongs to the shard of its CQ.
type srq struct {
	pd    *pd
	cq    *cq
	shard *Shard
	rq    recvQueue
	caps  verbs.SRQCaps
	// The SRQ is armed if the limit is above 0. When fewer buffers than the limit are
	// left, AsyncSRQLimit is raised, and the limit becomes 0.
	limit   int
	refs    int // number of queue pairs with this SRQ
	partial partialBuffers
	closed  bool
}

// CreateSRQ implements verbs.PD.
func (p *pd) CreateSRQ(attr *verbs.SRQAttr) (verbs.SRQ, error) {
	s, err := p.createSRQ(attr)
	if err != nil {
		return nil, operr.Wrap("create SRQ", err)
	}
	return s, nil
}

func (p *pd) createSRQ(attr *verbs.SRQAttr) (*srq, error) {
	if attr == nil {
		return nil, errNilAttr
	}
	if attr.MaxWR < 1 || attr.MaxWR > maxSRQWR {
		return nil, &verbs.ParamError{Field: "SRQ WRs", Value: int64(attr.MaxWR), Limit: maxSRQWR, Reason: "out of range"}
	}
	if attr.MaxSGE < 0 || attr.MaxSGE > maxSGE {
		return nil, &verbs.ParamError{Field: "SRQ SGEs", Value: int64(attr.MaxSGE), Limit: maxSGE, Reason: "out of range"}
	}
	if attr.BuffersPerQP < 0 {
		return nil, &verbs.ParamError{Field: "SRQ buffers of a QP", Value: int64(attr.BuffersPerQP), Limit: maxSRQWR, Reason: "out of range"}
	}
	c, err := p.checkCQ(attr.CQ)
	if err != nil {
		return nil, err
	}
	caps := verbs.SRQCaps{MaxWR: attr.MaxWR, MaxSGE: max(attr.MaxSGE, 1)}
	p.refs.Add(1)
	return &srq{
		pd: p, cq: c, shard: c.shard, caps: caps, rq: newRecvQueue(caps.MaxWR, caps.MaxSGE),
		partial: partialBuffers{unlimited: attr.BuffersPerQP > 0},
	}, nil
}

// Caps implements verbs.SRQ.
func (s *srq) Caps() verbs.SRQCaps { return s.caps }

// PostRecv implements verbs.SRQ.
func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) {
	s.shard.Enter()
	defer s.shard.Leave()
	if s.closed {
		return 0, operr.Wrap("post SRQ receive", verbs.ErrClosed)
	}
	n, err := s.rq.post(wrs)
	return n, operr.Wrap("post SRQ receive", err)
}

// Arm implements verbs.SRQ.
func (s *srq) Arm(limit int) error {
	s.shard.Enter()
	defer s.shard.Leave()
	if s.closed {
		return operr.Wrap("arm SRQ", verbs.ErrClosed)
	}
	if limit < 0 || limit > s.caps.MaxWR {
		return operr.Wrap("arm SRQ", &verbs.ParamError{Field: "SRQ limit", Value: int64(limit), Limit: int64(s.caps.MaxWR), Reason: "out of range"})
	}
	s.limit = limit
	s.checkLimit()
	return nil
}

// pop takes the oldest buffer; see recvQueue.pop. If there is none, a stalled message
// gives its buffer back.
func (s *srq) pop(into *rqe) bool {
	if !s.rq.pop(into) {
		s.partial.reclaim(nil)
		return false
	}
	s.checkLimit()
	return true
}

// checkLimit raises AsyncSRQLimit and disarms the SRQ, if the limit is reached.
func (s *srq) checkLimit() {
	if s.limit > 0 && s.rq.len() < s.limit {
		s.limit = 0
		s.pd.engine.async.push(verbs.AsyncEvent{Type: verbs.AsyncSRQLimit, SRQ: s})
	}
}

// Close implements verbs.SRQ.
func (s *srq) Close() error {
	s.shard.Enter()
	defer s.shard.Leave()
	if s.closed {
		return nil
	}
	if s.refs > 0 {
		return operr.Wrap("close SRQ", verbs.ErrBusy)
	}
	s.closed = true
	s.pd.refs.Add(-1)
	s.pd.engine.async.forget(s)
	return nil
}
