//go:build linux

package connmgr

import "github.com/rdmaloop/rdmaloop/verbs"

// Two timers of a queue pair, as codes of five bits.

const (
	// packetLifetime is the code of the longest time of a packet to the peer, 0.54 s.
	// The kernel assumes 16 or 18, depending on its version. With 17 the ACK timeout is
	// 1.07 s, and a request with 7 retries fails after at least 8.6 s. So a connection
	// survives an outage of 5 s. A single loss is noticed earlier; see
	// rcConn.sendTailProbe.
	packetLifetime = 17
	// linuxLifetime is the code that kernels after Linux 6.1 assume. Linux 6.1 assumes
	// 18.
	linuxLifetime = 16
)

// ackTimeoutCode returns the code of the local ACK timeout: twice the packet lifetime
// plus the responder's ACK delay, rounded to a power of two (IBTA vol. 1, 12.7.34;
// rdma_accept(3)).
func ackTimeoutCode(lifetime, delay uint8) uint8 {
	long, short := max(lifetime+1, delay), min(lifetime+1, delay)
	if short+1 >= long {
		// As in the kernel: the sum is rounded up if the shorter time is at least half
		// of the longer one, and otherwise down.
		long++
	}
	return min(long, verbs.MaxTimerCode)
}

// lifetime returns the packet lifetime of the path. An ACK timeout of the application
// determines it, as in the kernel (rdma_set_option(3)).
func (i *id) lifetime() uint8 {
	if i.opts.ackTimeoutSet && i.opts.ackTimeout > 0 {
		return i.opts.ackTimeout - 1
	}
	return packetLifetime
}

// ackTimeoutToSend returns the ACK timeout that a REQ proposes to the passive side.
func (i *id) ackTimeoutToSend() uint8 {
	if i.opts.ackTimeoutSet {
		return i.opts.ackTimeout
	}
	return ackTimeoutCode(i.lifetime(), i.m.limits.LocalCAAckDelay)
}

// ackTimeoutReceived returns the passive side's ACK timeout for the one in the REQ. It
// replaces the short default of newer kernels, which survives no outage of 5 s. A longer
// timeout is always allowed.
func (i *id) ackTimeoutReceived(proposed uint8) uint8 {
	own := ackTimeoutCode(packetLifetime, i.m.limits.LocalCAAckDelay)
	if proposed == 0 || proposed == linuxLifetime+1 {
		return own
	}
	return proposed
}
