//go:build linux

package connmgr

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// negotiation has the parameters of a connection that both sides have agreed on, from the
// view of the local queue pair.
type negotiation struct {
	psn uint32 // first packet sequence number that the local queue pair expects
	// peerQPN is the number of the peer's queue pair. peerPSN is the first packet sequence
	// number that the peer's queue pair expects.
	peerQPN, peerPSN uint32
	mtu              verbs.MTU // path MTU; 0 means LargestMTU
	// resources is the number of incoming READs and atomics that the local queue pair
	// serves at a time. depth is the largest number of outgoing READs and atomics that it
	// has in flight.
	resources, depth uint8
	// retry count and RNR retry count of the local queue pair, 3 bits each
	retry, rnrRetry uint8
	flow            CreditFlow
	// Code of the ACK timeout, 5 bits. An ACK timeout that the application has set as an
	// option takes precedence.
	ackTimeout uint8
}

// setPeer sets the parameters that come from the peer. The queue pair serves at most
// maxResources incoming READs and atomics, and has at most maxDepth outgoing ones in
// flight.
func (n *negotiation) setPeer(peer *QPParams, maxResources, maxDepth uint8) {
	n.peerQPN, n.peerPSN = peer.QPN, peer.PSN
	n.resources = min(peer.InitiatorDepth, maxResources)
	n.depth = min(peer.ResponderResources, maxDepth)
	n.rnrRetry = peer.RNRRetry
	// A queue pair with a shared receive queue never advertises receive buffers.
	n.flow.Receives = peer.FlowControl && !peer.SRQ
}

// param returns the parameters of a message as they appear in the receiver's event. The
// receiver's responder resources are the sender's initiator depth, and vice versa.
func (p *QPParams) param() cm.MessageParam {
	return cm.MessageParam{
		ResponderResources: p.InitiatorDepth,
		InitiatorDepth:     p.ResponderResources,
		FlowControl:        p.FlowControl,
		RNRRetryCount:      p.RNRRetry,
		SRQ:                p.SRQ,
		QPNum:              p.QPN,
	}
}

// localParams returns the parameters of the local queue pair that are sent to the peer.
func (i *ID) localParams(param *cm.MessageParam) QPParams {
	return QPParams{
		QPN:                i.qpn,
		PSN:                i.negotiated.psn,
		SRQ:                param.SRQ,
		ResponderResources: param.ResponderResources,
		InitiatorDepth:     param.InitiatorDepth,
		RNRRetry:           param.RNRRetryCount,
		FlowControl:        param.FlowControl,
	}
}

// initQPAttr returns the attributes with which a queue pair enters INIT, RTR or RTS.
// Package cm never calls it for another state.
func (i *ID) initQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	attr := verbs.QPAttr{State: state}
	var mask verbs.QPAttrMask
	var err error
	switch {
	case i.ps == cm.UDP:
		mask = udAttr(&attr)
	case state == verbs.StateInit:
		attr.Port, attr.Access = PortNumber, i.negotiated.access()
		mask = verbs.AttrPort | verbs.AttrAccess
	case state == verbs.StateRTR:
		mask, err = i.rtrAttr(&attr)
	default:
		mask = i.rtsAttr(&attr)
	}
	return attr, mask | verbs.AttrState, err
}

// udAttr sets the attributes of a UD queue pair (rdma_create_qp(3)). The first PSN is 0.
func udAttr(attr *verbs.QPAttr) verbs.QPAttrMask {
	switch attr.State {
	case verbs.StateInit:
		attr.Port, attr.QKey = PortNumber, cm.DefaultQKey
		return verbs.AttrPort | verbs.AttrQKey
	case verbs.StateRTS:
		return verbs.AttrSQPSN
	}
	return 0
}

// rtrAttr sets the attributes for RTR. The access rights depend on the responder
// resources, which the negotiation sets.
func (i *ID) rtrAttr(attr *verbs.QPAttr) (verbs.QPAttrMask, error) {
	var err error
	if attr.AH, err = i.route(); err != nil {
		return 0, err
	}
	attr.PathMTU = LargestMTU
	if i.negotiated.mtu != 0 {
		attr.PathMTU = i.negotiated.mtu
	}
	attr.DestQPN, attr.RQPSN = i.negotiated.peerQPN, i.negotiated.psn
	attr.MaxDestRdAtomic = i.negotiated.resources
	attr.MinRNRTimer = i.opts.minRNRTimer
	attr.Access = i.negotiated.access()
	return verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
		verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer | verbs.AttrAccess, nil
}

func (i *ID) rtsAttr(attr *verbs.QPAttr) verbs.QPAttrMask {
	attr.SQPSN = i.negotiated.peerPSN
	attr.Timeout = i.negotiated.ackTimeout
	if i.opts.ackTimeoutSet {
		attr.Timeout = i.opts.ackTimeout
	}
	attr.RetryCount, attr.RNRRetry = i.negotiated.retry, i.negotiated.rnrRetry
	attr.MaxRdAtomic = i.negotiated.depth
	return verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic
}

// access returns what the peer may do: RDMA WRITE, and also READ and atomics if this side
// has responder resources.
func (n *negotiation) access() verbs.Access {
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	if n.resources > 0 {
		access |= verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	return access
}

// route returns the address vector to the peer.
func (i *ID) route() (verbs.AHAttr, error) {
	source, err := i.m.Engine.SourceIndex(i.local.Addr())
	return verbs.AHAttr{
		DestGID:      verbs.GIDFromAddr(i.remote.Addr()),
		SourceIndex:  source,
		HopLimit:     udp.DefaultHopLimit,
		TrafficClass: i.opts.tos,
		Port:         PortNumber,
	}, err
}

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
