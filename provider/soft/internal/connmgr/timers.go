//go:build linux

package connmgr

import "github.com/rdmaloop/rdmaloop/verbs"

// Packet lifetimes, as codes of five bits. The code n means 4.096 µs * 2^n.

const (
	// PacketLifetime is the code of the packet lifetime that this package assumes: 0.54 s.
	// With 7 retries, a connection survives a network outage of 5 s.
	PacketLifetime = 17
	// linuxLifetime is the code of the packet lifetime that Linux after version 6.1 assumes.
	// Linux 6.1 assumes 18.
	linuxLifetime = 16
	// maxPeerTimeout is the code of the longest ACK timeout that the messages of a peer can
	// cause: 4.3 s, twice the default of Linux 6.1. With a longer one, the peer would decide
	// how long this side keeps the resources of requests that the peer does not answer.
	maxPeerTimeout = 20
	// TargetAckDelay is the code of the ACK delay that a REP states: 1.07 s. A loop
	// acknowledges only when the system runs its thread. With nine other threads for each
	// processor, 3 % of the acknowledgements took longer, and 68 % took longer than 134 ms,
	// the code 15 of the device. From this delay Linux 6.1 computes a timeout of 4.3 s
	// instead of 2.1 s. That matters because rxe does not survive a timeout if it has to
	// repeat the registration of memory; see examples/nvmeof/README.md.
	TargetAckDelay = 18
)

// ackTimeoutCode returns the code of the local ACK timeout: twice the packet lifetime
// plus the ACK delay of the responder (IBTA vol. 1, 12.7.34; rdma_accept(3)). Both
// parameters are codes of times. The sum is rounded to a code in the same way as in the
// kernel.
func ackTimeoutCode(lifetime, delay uint8) uint8 {
	long, short := max(lifetime+1, delay), min(lifetime+1, delay)
	if short+1 >= long {
		// The sum is at least 1.5 times the larger of the two times, so the kernel rounds
		// it up.
		long++
	}
	return min(long, verbs.MaxTimerCode)
}

// lifetime returns the code of the packet lifetime. If the application has set an ACK
// timeout, the lifetime is half of it (rdma_set_option(3)).
func (i *ID) lifetime() uint8 {
	if i.opts.ackTimeoutSet && i.opts.ackTimeout > 0 {
		return i.opts.ackTimeout - 1
	}
	return PacketLifetime
}

// ackDelayReceived returns the ACK delay with which the active side computes its timeout.
// It is the delay that the REP states. The delay of a peer of this package is left out,
// because this package can repeat every request, and should notice an outage early.
func (i *ID) ackDelayReceived(stated uint8) uint8 {
	if stated == 0 || stated == TargetAckDelay {
		return i.m.limits.LocalCAAckDelay
	}
	return stated
}

// ackTimeoutToSend returns the code of the ACK timeout that a REQ proposes to the passive
// side.
func (i *ID) ackTimeoutToSend() uint8 {
	if i.opts.ackTimeoutSet {
		return i.opts.ackTimeout
	}
	return ackTimeoutCode(i.lifetime(), i.m.limits.LocalCAAckDelay)
}

// ackTimeoutReceived returns the code of the ACK timeout that the passive side uses. It
// is the timeout that the REQ proposes, up to maxPeerTimeout, unless this is 0 or the
// short default of Linux after version 6.1. In these two cases the passive side computes
// its own timeout.
func (i *ID) ackTimeoutReceived(proposed uint8) uint8 {
	own := ackTimeoutCode(PacketLifetime, i.m.limits.LocalCAAckDelay)
	if proposed == 0 || proposed == linuxLifetime+1 {
		return own
	}
	return min(proposed, maxPeerTimeout)
}
