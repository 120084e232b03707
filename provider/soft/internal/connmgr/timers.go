//go:build linux

package connmgr

import "github.com/rdmaloop/rdmaloop/verbs"

// Connection management sets two timers of a queue pair. Their values are codes of five
// bits.

const (
	// packetLifetime is the code of the longest time that a packet is assumed to take to
	// the peer, 0.54 s. On InfiniBand the subnet manager knows that time. On RoCE the
	// kernel assumes the code 16 or 18, depending on its version. With the code 17 the
	// ACK timeout is 1.07 s, and a request with the largest retry count of 7 fails after
	// 8.6 s at the earliest. So a connection survives an outage of 5 s, in which a
	// network finds another route. The loss of a single packet is noticed earlier; see
	// rcConn.sendTailProbe.
	packetLifetime = 17
	// linuxLifetime is the code of the packet lifetime that kernels newer than Linux 6.1
	// assume. Linux 6.1 assumes the code 18.
	linuxLifetime = 16
)

// ackTimeoutCode returns the code of the local ACK timeout, given the codes of the
// packet lifetime and of the ACK delay of the responder's device. The timeout is twice
// the lifetime plus the delay, rounded to a power of two as the kernel does. Source:
// IBTA vol. 1, 12.7.34; rdma_accept(3).
func ackTimeoutCode(lifetime, delay uint8) uint8 {
	long, short := max(lifetime+1, delay), min(lifetime+1, delay)
	if short+1 >= long {
		// The sum has to be rounded to a power of two. The kernel rounds it up if the
		// shorter time is at least half of the longer one, and ignores the shorter time
		// otherwise.
		long++
	}
	return min(long, verbs.MaxTimerCode)
}

// lifetime returns the packet lifetime of the ID's path. If the application has set an
// ACK timeout, lifetime computes the packet lifetime from that timeout, as the kernel
// does with rdma_set_option(3).
func (i *id) lifetime() uint8 {
	if i.opts.ackTimeoutSet && i.opts.ackTimeout > 0 {
		return i.opts.ackTimeout - 1
	}
	return packetLifetime
}

// ackTimeoutToSend returns the ACK timeout that a REQ proposes for the queue pair of the
// passive side.
func (i *id) ackTimeoutToSend() uint8 {
	if i.opts.ackTimeoutSet {
		return i.opts.ackTimeout
	}
	return ackTimeoutCode(i.lifetime(), i.m.limits.LocalCAAckDelay)
}

// ackTimeoutReceived returns the ACK timeout of the passive side. The parameter proposed
// is the timeout that the REQ proposes. The default of kernels newer than Linux 6.1 is
// too short to survive an outage of 5 s, so ackTimeoutReceived replaces it by a longer
// one. The passive side may always use a longer timeout than the proposed one.
func (i *id) ackTimeoutReceived(proposed uint8) uint8 {
	own := ackTimeoutCode(packetLifetime, i.m.limits.LocalCAAckDelay)
	if proposed == 0 || proposed == linuxLifetime+1 {
		return own
	}
	return proposed
}
