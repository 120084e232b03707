//go:build cgo && linux

package rdmacore

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A sendReq is a send request in the form that the C code gets, without pointers. For the
// fields of a bind see struct rl_send.
type sendReq struct {
	id         uint64
	remoteAddr uint64
	compareAdd uint64
	swap       uint64
	ah         uint64 // address of the struct ibv_ah; 0 if the queue pair is not UD
	rkey       uint32
	imm        uint32
	qpn        uint32
	qkey       uint32
	sges       uint32 // number of SGEs in the batch that belong to this request
	opcode     uint8
	flags      uint8
}

// A recvReq is a receive request in the form that the C code gets.
type recvReq struct {
	id   uint64
	sges uint64
}

// A sendQueue checks send requests and collects them in a batch for one call into C.
type sendQueue struct {
	qp  *qp
	mtu int // size in bytes of the largest datagram

	guard  // lock for the fields below
	closed bool
	// true if SendInline has posted a message since the last PostSend or Doorbell
	direct bool
	tag    uint64
	places orderedPlaces

	// requests of the present batch; the next batch uses the same memory
	reqs   []sendReq
	sges   []verbs.SGE
	inline []byte
	binds  bool // true if a request of the batch binds a memory window
	args   postArgs

	inlineArgs inlineArgs // arguments of SendInline
}

// gather puts requests into the batch and returns the number of them. It stops at the
// first invalid request, or when the queue is full.
func (s *sendQueue) gather(wrs []verbs.SendWR) (int, error) {
	s.reqs, s.sges, s.inline, s.binds = s.reqs[:0], s.sges[:0], s.inline[:0], false
	for i := range wrs {
		if s.places.room() == 0 {
			return i, verbs.ErrQueueFull
		}
		if err := s.add(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func (s *sendQueue) add(wr *verbs.SendWR) error {
	if err := s.check(wr); err != nil {
		return err
	}
	if wr.Opcode == verbs.OpBindMW {
		return s.addBind(wr)
	}
	ah, err := s.route(wr)
	if err != nil {
		return err
	}
	sges := len(s.sges)
	if wr.Flags&verbs.SendInline == 0 {
		s.sges = append(s.sges, wr.SGEs...)
	} else if len(wr.Inline) > 0 {
		s.sges = append(s.sges, verbs.SGE{Addr: uint64(len(s.inline)), Length: uint32(len(wr.Inline))})
		s.inline = append(s.inline, wr.Inline...)
	}
	s.reqs = append(s.reqs, sendReq{
		id:         wrID(s.tag, s.places.occupy(wr.ID)),
		remoteAddr: wr.RemoteAddr,
		compareAdd: wr.CompareAdd,
		swap:       wr.Swap,
		ah:         ah,
		rkey:       wr.RKey,
		imm:        wr.Imm,
		qpn:        wr.RemoteQPN,
		qkey:       wr.RemoteQKey,
		sges:       uint32(len(s.sges) - sges),
		opcode:     uint8(wr.Opcode),
		flags:      uint8(wr.Flags),
	})
	return nil
}

const sendFlags = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited | verbs.SendInline

// check refuses requests that a device might misinterpret.
func (s *sendQueue) check(wr *verbs.SendWR) error {
	sends := wr.Opcode == verbs.OpSend || wr.Opcode == verbs.OpSendImm
	switch {
	case wr.Opcode > s.qp.pd.dev.lastOpcode(), s.qp.kind == verbs.QPTypeUD && !sends:
		return &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "not supported by the queue pair"}
	case wr.Flags&^sendFlags != 0:
		return &verbs.ParamError{Field: "send flags", Value: int64(wr.Flags), Limit: int64(sendFlags), Reason: "unknown flag"}
	case wr.Opcode.Local():
		return wr.CheckLocal()
	case wr.Flags&verbs.SendInline != 0:
		return s.checkInline(wr)
	case len(wr.SGEs) > s.qp.caps.MaxSendSGE:
		return &verbs.ParamError{Field: "send SGEs", Value: int64(len(wr.SGEs)), Limit: int64(s.qp.caps.MaxSendSGE)}
	}
	return nil
}

func (s *sendQueue) checkInline(wr *verbs.SendWR) error {
	switch {
	case wr.Opcode == verbs.OpRead || wr.Opcode.Atomic():
		return &verbs.ParamError{Field: "opcode", Value: int64(wr.Opcode), Reason: "has no payload"}
	case len(wr.Inline) > s.qp.caps.MaxInline:
		return &verbs.ParamError{Field: "inline bytes", Value: int64(len(wr.Inline)), Limit: int64(s.qp.caps.MaxInline)}
	}
	return nil
}

// route returns the address of a datagram's address handle. It refuses a datagram that
// is too long.
func (s *sendQueue) route(wr *verbs.SendWR) (uint64, error) {
	if s.qp.kind != verbs.QPTypeUD {
		return 0, nil
	}
	if wr.AH == nil {
		return 0, &verbs.ParamError{Field: "address handle", NotNumber: true, Reason: "missing"}
	}
	a, ok := wr.AH.(*ah)
	if !ok || a.pd != s.qp.pd {
		return 0, verbs.ErrForeign
	}
	size := 0
	if wr.Flags&verbs.SendInline != 0 {
		size = len(wr.Inline)
	} else {
		for i := range wr.SGEs {
			size += int(wr.SGEs[i].Length)
		}
	}
	if size > s.mtu {
		return 0, &verbs.ParamError{Field: "datagram bytes", Value: int64(size), Limit: int64(s.mtu)}
	}
	return a.address()
}

// settle implements settler: it frees the place and restores the caller's ID.
func (s *sendQueue) settle(place uint32, wc *verbs.WC) (ok bool) {
	s.enter()
	defer s.leave()
	wc.ID, ok = s.places.settle(place)
	return ok
}

func (s *sendQueue) failed() { s.qp.failed() }

// A recvQueue checks receive requests and collects them in a batch for one call into C.
// It is the receive queue of a queue pair, or an SRQ.
type recvQueue struct {
	qp        *qp // nil for an SRQ
	maxSGE    int
	datagrams atomic.Int32 // number of UD queue pairs that use this queue

	guard  // lock for the fields below
	closed bool
	tag    uint64
	places poolPlaces

	reqs []recvReq
	sges []verbs.SGE
	args postArgs
}

// gather puts requests into the batch and returns the number of them. It stops at the
// first invalid request, or when the queue is full.
func (r *recvQueue) gather(wrs []verbs.RecvWR) (int, error) {
	r.reqs, r.sges = r.reqs[:0], r.sges[:0]
	for i := range wrs {
		if r.places.room() == 0 {
			return i, verbs.ErrQueueFull
		}
		sges := wrs[i].SGEs
		if len(sges) > r.maxSGE {
			return i, &verbs.ParamError{Field: "receive SGEs", Value: int64(len(sges)), Limit: int64(r.maxSGE)}
		}
		r.sges = append(r.sges, sges...)
		r.reqs = append(r.reqs, recvReq{id: wrID(r.tag, r.places.occupy(wrs[i].ID)), sges: uint64(len(sges))})
	}
	return len(wrs), nil
}

// settle implements settler. Only datagrams have a GRH, but some devices set the GRH
// flag for other messages too (ibv_poll_cq(3)). If no UD queue pair uses the queue,
// settle() clears the flag.
func (r *recvQueue) settle(place uint32, wc *verbs.WC) (ok bool) {
	r.enter()
	defer r.leave()
	wc.ID, ok = r.places.settle(place)
	if r.datagrams.Load() == 0 {
		wc.Flags &^= verbs.WCWithGRH
	}
	return ok
}

// failed implements settler. For an SRQ it does nothing, because an SRQ keeps its
// buffers when a queue pair fails.
func (r *recvQueue) failed() {
	if r.qp != nil {
		r.qp.failed()
	}
}
