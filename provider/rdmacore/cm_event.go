//go:build cgo && linux

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

// Next fetches one event. librdmacm may then also change the state of the ID's queue
// pair.
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

// translate converts the event in ch.raw. It returns false if the ID of the event was
// destroyed.
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
	i.trackState(ev.Type)
	return true
}

// request returns a new ID for a connection request. If the listener is closed, it
// rejects the request and returns nil.
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

// byApplication reports whether the peer's application has rejected a request. A reject
// by the peer's kernel may have the same reason code, but its private data is all zero.
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

// trackState records that librdmacm has changed the state of the ID's queue pair. The
// channel is locked.
func (i *id) trackState(t cm.EventType) {
	if i.qp == nil {
		return
	}
	switch t {
	case cm.Established:
		i.reachedRTS()
	case cm.Rejected, cm.ConnectError:
		i.qp.setLast(verbs.StateError)
	}
}

// reachedRTS records that the queue pair is in RTS, and sets its RNR timer.
func (i *id) reachedRTS() {
	if i.qp.lastState() < verbs.StateRTS {
		i.qp.setLast(verbs.StateRTS)
		i.qp.setRNRTimer(i.minRNRTimer)
	}
}

func fromParam(p *C.struct_rl_param) cm.MessageParam {
	return cm.MessageParam{
		ResponderResources: uint8(p.responder_resources),
		InitiatorDepth:     uint8(p.initiator_depth),
		FlowControl:        p.flow_control != 0,
		RetryCount:         uint8(p.retry_count),
		RNRRetryCount:      uint8(p.rnr_retry_count),
		SRQ:                p.srq != 0,
		QPNum:              uint32(p.qp_num),
	}
}

// toParam converts connection parameters. Package cm has checked the length of the
// private data.
func toParam(p *cm.MessageParam) (out C.struct_rl_param) {
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

// pointer converts an address in C memory to a pointer in a way that go vet accepts.
func pointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
