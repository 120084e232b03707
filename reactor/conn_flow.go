package reactor

// sendFlow does the accounts of a send queue. Requests are numbered as they are
// accepted; the numbers run freely, and a request's slot is its number modulo
// the size of the queue, a power of two.
//
//	retired ── tail ── at the device ── posted ── staged ── head
type sendFlow struct {
	limit       uint32 // requests of the application that may be outstanding
	signalEvery uint32 // of so many requests one is signaled
	mask        uint32

	tail, posted, head uint32
	unsignaled         uint32 // accepted since the last signaled one
	probes             uint32 // outstanding requests that are not the application's
	writableDue        bool   // a send found no room, and OnWritable is due
}

// newSendFlow makes the accounts for limit requests, and a probe beside them.
func newSendFlow(limit, every int) sendFlow {
	size := uint32(1)
	for size < uint32(limit)+1 {
		size <<= 1
	}
	return sendFlow{limit: uint32(limit), signalEvery: uint32(every), mask: size - 1}
}

func (f *sendFlow) size() int           { return int(f.mask) + 1 }
func (f *sendFlow) outstanding() uint32 { return f.head - f.tail }
func (f *sendFlow) inFlight() uint32    { return f.posted - f.tail }
func (f *sendFlow) staged() uint32      { return f.head - f.posted }

// full reports whether the application has to wait.
func (f *sendFlow) full() bool { return f.outstanding()-f.probes >= f.limit }

// accept numbers a request and returns its slot, and whether it is to be
// signaled: when asked for, each every-th, and the one that fills the queue,
// for otherwise nothing would ever make room again.
func (f *sendFlow) accept(signal bool) (slot uint32, signaled bool) {
	slot = f.head & f.mask
	f.head++
	f.unsignaled++
	if signal || f.unsignaled >= f.signalEvery || f.full() {
		f.unsignaled = 0
		return slot, true
	}
	return slot, false
}

// covers is how many requests are done when the one in slot is: those before
// it and itself. Zero means that the slot is not at the device.
func (f *sendFlow) covers(slot uint32) uint32 {
	n := (slot-f.tail)&f.mask + 1
	if slot > f.mask || n > f.inFlight() {
		return 0
	}
	return n
}

// retire ends the oldest request and returns its slot.
func (f *sendFlow) retire() (slot uint32) {
	slot = f.tail & f.mask
	f.tail++
	if f.posted-f.tail > f.mask { // it was staged only
		f.posted = f.tail
	}
	return slot
}

// writable reports once, after a refusal, that half of the room is free again.
func (f *sendFlow) writable() bool {
	if !f.writableDue || f.outstanding()-f.probes > f.limit/2 {
		return false
	}
	f.writableDue = false
	return true
}
