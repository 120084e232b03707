//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// terms are what both sides agreed on, from the view of the local queue pair.
type negotiation struct {
	psn              uint32 // the first it expects
	peerQPN, peerPSN uint32
	mtu              verbs.MTU // 0: the port's
	resources, depth uint8     // READs and atomics it serves, and has outstanding
	retry, rnrRetry  uint8
	flow             creditFlow
	ackTimeout       uint8 // code of 5 bits; the application's choice takes precedence
}

const (
	// defaultHopLimit is the TTL that the system's packets start with.
	defaultHopLimit = 64
)

// agree takes over what the other side tells of its queue pair. What it has
// outstanding is what this one serves and the other way round, no more than the
// device can; its RNR retry count is for this one's sends.
func (t *negotiation) setPeer(peer *qpParams, limits *verbs.DeviceAttr) {
	t.peerQPN, t.peerPSN = peer.qpn, peer.psn
	t.resources = min(peer.initiatorDepth, limits.MaxQPRdAtom)
	t.depth = min(peer.responderResources, limits.MaxQPInitRdAtom)
	t.rnrRetry = peer.rnrRetry
	t.flow.receives = peer.flowControl && !peer.srq // a shared queue has no credits to tell
}

// param is how the receiver sees what the other side tells.
func (s *qpParams) param() cm.ConnParam {
	return cm.ConnParam{
		ResponderResources: s.initiatorDepth,
		InitiatorDepth:     s.responderResources,
		FlowControl:        s.flowControl,
		RNRRetryCount:      s.rnrRetry,
		SRQ:                s.srq,
		QPNum:              s.qpn,
	}
}

// describe is what this side tells of its queue pair.
func (i *id) localParams(param *cm.ConnParam) qpParams {
	return qpParams{
		qpn:                i.qpn,
		psn:                i.negotiated.psn,
		srq:                param.SRQ,
		responderResources: param.ResponderResources,
		initiatorDepth:     param.InitiatorDepth,
		rnrRetry:           param.RNRRetryCount,
		flowControl:        param.FlowControl,
	}
}

// initQPAttr returns what brings a queue pair to a state under the terms.
func (i *id) initQPAttr(state verbs.QPState) (verbs.QPAttr, verbs.QPAttrMask, error) {
	if i.bound == nil {
		return verbs.QPAttr{}, 0, verbs.ErrState
	}
	attr := verbs.QPAttr{State: state}
	var mask verbs.QPAttrMask
	var err error
	switch {
	case state < verbs.StateInit || state > verbs.StateRTS:
		err = &verbs.ParamError{Field: "QP state", Value: int64(state), Limit: int64(verbs.StateRTS), Reason: "not one that leads to a connection"}
	case i.ps == cm.UDP:
		mask = datagramAttr(&attr)
	case state == verbs.StateInit:
		attr.Port, attr.Access = devicePort, i.negotiated.access()
		mask = verbs.AttrPort | verbs.AttrAccess
	case state == verbs.StateRTR:
		mask, err = i.receiveAttr(&attr)
	default:
		mask = i.sendAttr(&attr)
	}
	return attr, mask | verbs.AttrState, err
}

// datagramAttr: see rdma_create_qp(3); the first PSN is 0.
func datagramAttr(attr *verbs.QPAttr) verbs.QPAttrMask {
	switch attr.State {
	case verbs.StateInit:
		attr.Port, attr.QKey = devicePort, cm.DefaultQKey
		return verbs.AttrPort | verbs.AttrQKey
	case verbs.StateRTS:
		return verbs.AttrSQPSN
	}
	return 0
}

// receiveAttr is for RTR. The access rights are repeated because the terms were
// not known at INIT.
func (i *id) receiveAttr(attr *verbs.QPAttr) (verbs.QPAttrMask, error) {
	var err error
	if attr.AH, err = i.route(); err != nil {
		return 0, err
	}
	attr.PathMTU = portMTU
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

// sendAttr is for RTS.
func (i *id) sendAttr(attr *verbs.QPAttr) verbs.QPAttrMask {
	attr.SQPSN = i.negotiated.peerPSN
	attr.Timeout = i.negotiated.ackTimeout
	if i.opts.ackTimeoutSet {
		attr.Timeout = i.opts.ackTimeout
	}
	attr.RetryCount, attr.RNRRetry = i.negotiated.retry, i.negotiated.rnrRetry
	attr.MaxRdAtomic = i.negotiated.depth
	return verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrMaxRdAtomic
}

// access is what the peer may do: WRITE always, READ and atomics where
// responder resources serve them.
func (t *negotiation) access() verbs.Access {
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	if t.resources > 0 {
		access |= verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	return access
}

// route is the way to the peer.
func (i *id) route() (verbs.AHAttr, error) {
	source, err := i.bound.gids.index(i.local.Addr())
	return verbs.AHAttr{
		DestGID:      verbs.GIDFromAddr(i.remote.Addr()),
		SourceIndex:  source,
		HopLimit:     defaultHopLimit,
		TrafficClass: i.opts.tos,
		Port:         devicePort,
	}, err
}
