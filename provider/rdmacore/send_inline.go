//go:build cgo && linux

package rdmacore

import (
	"unsafe"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// SendInline implements verbs.QP. It posts the first message at once. Until
// Doorbell or PostSend is called, it refuses further messages, because posting them as
// one batch costs less.
//
// Implements: ibv_post_send(3).
func (q *qp) SendInline(id uint64, flags verbs.SendFlags, data []byte) bool {
	s := &q.sends
	s.enter()
	ok := q.lastState() == verbs.StateRTS && s.sendInline(id, flags, data)
	s.leave()
	return ok
}

// Doorbell implements verbs.QP. After Doorbell, SendInline may post a message.
func (q *qp) Doorbell() {
	q.sends.enter()
	q.sends.direct = false
	q.sends.leave()
}

// inlineFlags are the flags that SendInline accepts.
const inlineFlags = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited

// sendInline posts one message. It returns false if the message needs a check of
// PostSend, or if the device refuses the message. Then nothing has changed.
func (s *sendQueue) sendInline(id uint64, flags verbs.SendFlags, data []byte) bool {
	if s.direct || s.closed || s.qp.kind != verbs.QPTypeRC || s.places.room() == 0 ||
		flags&^inlineFlags != 0 || len(data) > s.qp.caps.MaxInline {
		return false
	}
	a := &s.inlineArgs
	a.qp, a.id = s.qp.address(), wrID(s.tag, s.places.occupy(id))
	a.len, a.flags = uint32(len(data)), uint32(flags)
	s.call(fnSendInline, unsafe.Pointer(a), unsafe.SliceData(data))
	if a.err != 0 {
		s.places.returnLast(1)
		return false
	}
	s.direct = true
	return true
}
