package reactor

// A sendFlow counts the requests of a send queue. Accepted requests get running numbers,
// modulo 2^32. A request's slot is its number modulo the size of the queue:
//
//	before tail          completed
//	tail to posted-1     in flight: posted and not completed
//	posted to head-1     staged: accepted and not posted
type sendFlow struct {
	limit       uint32 // number of requests of the application that may be outstanding
	signalEvery uint32 // every signalEvery-th request is signaled
	mask        uint32 // size of the queue minus one

	tail        uint32 // running number of the oldest outstanding request
	posted      uint32 // running number of the first request that is not posted yet
	head        uint32 // running number of the next request
	unsignaled  uint32 // number of requests accepted since the last signaled request
	probes      uint32 // number of outstanding requests that are probes
	internal    uint32 // number of outstanding requests that the library has made for long messages
	writableDue bool   // true if a send was refused and OnWritable must be called
}

// newSendFlow makes a sendFlow with room for limit requests of the application, one probe
// and the given number of internal requests. The parameter signalEvery is
// Config.SignalEvery.
func newSendFlow(limit, signalEvery, internal int) sendFlow {
	size := uint32(1)
	for size < uint32(limit+1+internal) {
		size <<= 1
	}
	return sendFlow{limit: uint32(limit), signalEvery: uint32(signalEvery), mask: size - 1}
}

// outstanding returns the number of requests accepted and not completed.
func (f *sendFlow) outstanding() uint32 { return f.head - f.tail }

// ofApp returns the number of outstanding requests of the application.
func (f *sendFlow) ofApp() uint32 { return f.outstanding() - f.probes - f.internal }

// inFlight returns the number of requests posted and not completed.
func (f *sendFlow) inFlight() uint32 { return f.posted - f.tail }

// staged returns the number of requests accepted and not posted.
func (f *sendFlow) staged() uint32 { return f.head - f.posted }

// full reports whether there is no room for another request of the application.
func (f *sendFlow) full() bool { return f.ofApp() >= f.limit }

// next returns the slot of the next request, and whether to signal the request. The
// request that fills the queue is signaled, because otherwise the queue would stay full.
func (f *sendFlow) next(signal bool) (slot uint32, signaled bool) {
	return f.head & f.mask, signal || f.unsignaled+1 >= f.signalEvery || f.ofApp()+1 >= f.limit
}

// accepted counts the request for which next() has returned a slot.
func (f *sendFlow) accepted(signaled bool) {
	f.head++
	f.unsignaled++
	if signaled {
		f.unsignaled = 0
	}
}

// covers returns how many requests the completion of this slot completes: the request in
// the slot, and all before it. It returns zero if the request is not in flight.
func (f *sendFlow) covers(slot uint32) uint32 {
	n := (slot-f.tail)&f.mask + 1
	if slot > f.mask || n > f.inFlight() {
		return 0
	}
	return n
}

// retire removes the oldest request, which has completed, and returns its slot.
func (f *sendFlow) retire() (slot uint32) {
	slot = f.tail & f.mask
	f.tail++
	// If the retired request was only staged, posted is before tail now. A retired request
	// must not be posted, so posted moves to tail.
	if f.posted-f.tail > f.mask {
		f.posted = f.tail
	}
	return slot
}

// writable reports whether OnWritable must be called: a send was refused, and at most
// half of the allowed requests are outstanding.
func (f *sendFlow) writable() bool {
	if !f.writableDue || f.ofApp() > f.limit/2 {
		return false
	}
	f.writableDue = false
	return true
}
