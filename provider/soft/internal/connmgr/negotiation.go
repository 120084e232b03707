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
