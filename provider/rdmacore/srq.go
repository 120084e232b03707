//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// srq implements verbs.SRQ.
type srq struct {
	pd    *pd
	c     *C.struct_ibv_srq
	caps  verbs.SRQCaps
	users userCount // counts the queue pairs that use the SRQ
	recvs recvQueue
}

// CreateSRQ creates a shared receive queue. If attr.CQ has manual progress, one goroutine
// owns the CQ and the SRQ, and the SRQ takes no lock.
//
// Implements: ibv_create_srq(3).
func (p *pd) CreateSRQ(attr *verbs.SRQAttr) (verbs.SRQ, error) {
	s, err := p.createSRQ(attr)
	if err != nil {
		return nil, operr.Wrap("create SRQ", err)
	}
	return s, nil
}

func (p *pd) createSRQ(attr *verbs.SRQAttr) (*srq, error) {
	limits := p.dev.attr
	if err := within("SRQ WRs", attr.MaxWR, 1, limits.MaxSRQWR); err != nil {
		return nil, err
	}
	if err := within("SRQ SGEs", attr.MaxSGE, 0, limits.MaxSRQSGE); err != nil {
		return nil, err
	}
	s := &srq{pd: p}
	if attr.CQ != nil {
		q, err := p.dev.ownCQ(attr.CQ, "CQ")
		if err != nil {
			return nil, err
		}
		s.recvs.share(q)
	}
	if err := p.users.add(); err != nil {
		return nil, err
	}
	if err := s.create(attr); err != nil {
		p.users.remove()
		return nil, err
	}
	return s, nil
}

func (s *srq) create(attr *verbs.SRQAttr) error {
	init := C.struct_ibv_srq_init_attr{attr: C.struct_ibv_srq_attr{
		max_wr: C.uint32_t(attr.MaxWR), max_sge: C.uint32_t(max(attr.MaxSGE, 1)),
	}}
	c, err := C.ibv_create_srq(s.pd.c, &init)
	if c == nil {
		return createError("create SRQ", err)
	}
	s.c = c
	s.caps = verbs.SRQCaps{MaxWR: int(init.attr.max_wr), MaxSGE: int(init.attr.max_sge)}
	s.recvs.maxSGE = s.caps.MaxSGE
	s.recvs.places = newPoolPlaces(s.caps.MaxWR)
	tag, ok := s.pd.dev.queues.add(&s.recvs)
	if !ok {
		C.ibv_destroy_srq(c)
		return &verbs.ParamError{Field: "work queues", Value: maxQueues + 1, Limit: maxQueues}
	}
	s.recvs.tag = tag
	s.pd.dev.objects.add(s.address(), s)
	return nil
}

func (s *srq) address() uintptr { return uintptr(unsafe.Pointer(s.c)) }

func (s *srq) Caps() verbs.SRQCaps { return s.caps }

// Arm requests the event AsyncSRQLimit. The event is raised when the SRQ has fewer
// receive buffers than the limit.
//
// Implements: ibv_modify_srq(3).
func (s *srq) Arm(limit int) error {
	return operr.Wrap("arm SRQ", s.users.whileOpen(func() error {
		if err := within("SRQ limit", limit, 0, s.caps.MaxWR); err != nil {
			return err
		}
		attr := C.struct_ibv_srq_attr{srq_limit: C.uint32_t(limit)}
		return verbsError("arm SRQ", int32(C.ibv_modify_srq(s.c, &attr, C.IBV_SRQ_LIMIT)))
	}))
}

// Close destroys the SRQ.
//
// Implements: ibv_destroy_srq(3).
func (s *srq) Close() error {
	return operr.Wrap("close SRQ", s.users.close(func() error {
		s.recvs.enter()
		defer s.recvs.leave()
		address := s.address()
		s.pd.dev.objects.remove(address)
		if err := verbsError("close SRQ", int32(C.ibv_destroy_srq(s.c))); err != nil {
			s.pd.dev.objects.add(address, s)
			return err
		}
		s.pd.dev.async.dropEvents(s)
		s.pd.dev.queues.remove(s.recvs.tag)
		s.recvs.closed = true
		s.pd.users.remove()
		return nil
	}))
}
