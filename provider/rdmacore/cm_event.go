//go:build rdmacore && cgo && linux

package rdmacore

// #cgo noescape rl_next_event
// #cgo nocallback rl_next_event
// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Next takes one event. In fetching it the library moves the queue pair of an
// active ID to RTS and answers the peer, which may take it a few system calls.
//
// Implements: rdma_get_cm_event(3), rdma_ack_cm_event(3).
func (ch *channel) Next(ev *cm.TransportEvent) (bool, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.c == nil {
		return false, verbs.ErrClosed
	}
	for {
		n := C.rl_next_event(ch.c, &ch.raw)
		if n <= 0 {
			return false, cmError("next event", int32(n))
		}
		if ch.translate(ev) {
			return true, nil
		}
	}
}

// translate makes an event of ch.raw; false when it is for an ID that was
// destroyed meanwhile.
func (ch *channel) translate(ev *cm.TransportEvent) bool {
	raw := &ch.raw
	*ev = cm.TransportEvent{Type: cm.EventType(raw._type), Status: int(raw.status)}
	i := ch.provider.id(uint64(raw.id))
	if ev.Type == cm.ConnectRequest {
		i = ch.request(ev)
	}
	if i == nil {
		return false
	}
	ev.ID = i
	ev.Param = fromParam(&raw.param)
	ev.UD = cm.UDParam{AH: fromAHAttr(&raw.ah), QPN: uint32(raw.param.qp_num), QKey: uint32(raw.qkey)}
	ev.PrivateData = unsafe.Slice((*byte)(&raw.param.data[0]), raw.param.data_len)
	ev.ByApplication = byApplication(ev)
	if raw.status < 0 {
		ev.Err = cmError(ev.Type.String(), int32(raw.status))
	}
	i.happened(ev.Type)
	return true
}

// request makes the ID of a connection request. One that nobody waits for any
// more is refused, which destroying its ID does.
func (ch *channel) request(ev *cm.TransportEvent) *id {
	c := (*C.struct_rdma_cm_id)(pointer(uint64(ch.raw.id)))
	listener := ch.provider.id(uint64(ch.raw.listener))
	if listener == nil {
		C.rl_destroy_id(c)
		return nil
	}
	ev.Listener = listener
	return ch.adopt(c)
}

// byApplication: librdmacm does not tell an application's refusal from others of
// the same number. The kernel's own have no private data, which is to say zeros.
func byApplication(ev *cm.TransportEvent) bool {
	refused := ev.Type == cm.Rejected && ev.Status == int(cm.RejectConsumer) ||
		ev.Type == cm.Unreachable && ev.Status == int(cm.SIDRReject)
	if !refused {
		return false
	}
	for _, b := range ev.PrivateData {
		if b != 0 {
			return true
		}
	}
	return false
}

// happened follows what the library has done to the queue pair of the ID. The
// channel is locked.
func (i *id) happened(t cm.EventType) {
	if i.qp == nil {
		return
	}
	switch t {
	case cm.Established:
		i.ready()
	case cm.Rejected, cm.ConnectError:
		i.qp.setLast(verbs.StateError)
	}
}

// ready is what there is to do when the library has moved the queue pair to RTS.
func (i *id) ready() {
	if i.qp.lastState() < verbs.StateRTS {
		i.qp.setLast(verbs.StateRTS)
		i.qp.setRNRTimer(i.minRNRTimer)
	}
}

func fromParam(p *C.struct_rl_param) cm.ConnParam {
	return cm.ConnParam{
		ResponderResources: uint8(p.responder_resources),
		InitiatorDepth:     uint8(p.initiator_depth),
		FlowControl:        p.flow_control != 0,
		RetryCount:         uint8(p.retry_count),
		RNRRetryCount:      uint8(p.rnr_retry_count),
		SRQ:                p.srq != 0,
		QPNum:              uint32(p.qp_num),
	}
}

// toParam: the private data fits, package cm has checked.
func toParam(p *cm.ConnParam) (out C.struct_rl_param) {
	out.responder_resources = C.uint8_t(p.ResponderResources)
	out.initiator_depth = C.uint8_t(p.InitiatorDepth)
	out.retry_count = C.uint8_t(p.RetryCount)
	out.rnr_retry_count = C.uint8_t(p.RNRRetryCount)
	out.qp_num = C.uint32_t(p.QPNum)
	if p.FlowControl {
		out.flow_control = 1
	}
	if p.SRQ {
		out.srq = 1
	}
	data := unsafe.Slice((*byte)(&out.data[0]), len(out.data))
	out.data_len = C.uint8_t(copy(data, p.PrivateData))
	return out
}

// pointer is an address in C's memory as a pointer, by a way that go vet knows
// not to mistake for arithmetic.
func pointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
