//go:build linux

package soft

// The times that connection management gives a queue pair are codes of five bits.

const (
	// packetLifetime is the code of the longest time that a packet is assumed to
	// take to the peer, 0.54 s. RoCE has nobody to ask, and the kernel assumes 16
	// or 18, depending on its version. With 17 the ACK timeout is 1.07 s, and a
	// request with the largest retry count of 7 fails after 8.6 s at the
	// earliest: an outage of 5 s, in which a network finds another way, is
	// survived. Losses of single packets are noticed earlier; see inquire.
	packetLifetime = 17
	// shortLifetime is what kernels newer than Linux 6.1 assume, which assumes 18.
	shortLifetime = 16
)

// ackTimeoutCode is the code of the local ACK timeout, from those of the packet
// lifetime and of the time that the answering device takes: that of twice the
// lifetime plus that time, rounded to a power of two as the kernel does. Source:
// IBTA vol. 1, 12.7.34; rdma_accept(3).
func ackTimeoutCode(lifetime, delay uint8) uint8 {
	there, short := max(lifetime+1, delay), min(lifetime+1, delay)
	if short+1 >= there {
		there++ // the two are too close for the shorter one to be left out
	}
	return min(there, maxCode)
}

// maxCode is the largest code: it has five bits.
const maxCode = 31

// lifetime is the packet lifetime of the ID's path. An ACK timeout that was set
// says what the application assumes of it, as with rdma_set_option(3).
func (i *id) lifetime() uint8 {
	if i.opts.ackTimeoutSet && i.opts.ackTimeout > 0 {
		return i.opts.ackTimeout - 1
	}
	return packetLifetime
}

// askTimeout is the ACK timeout that a request tells the passive side, whose
// requests this device answers.
func (i *id) askTimeout() uint8 {
	if i.opts.ackTimeoutSet {
		return i.opts.ackTimeout
	}
	return ackTimeoutCode(i.lifetime(), i.bound.attr.LocalCAAckDelay)
}

// toldTimeout is the ACK timeout of the passive side, from that which a request
// tells. One that follows from the kernel's default is too short to survive an
// outage of 5 s, and is lengthened: waiting longer is always allowed.
func (i *id) toldTimeout(told uint8) uint8 {
	own := ackTimeoutCode(packetLifetime, i.bound.attr.LocalCAAckDelay)
	if told == 0 || told == shortLifetime+1 {
		return own
	}
	return told
}
