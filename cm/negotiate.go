package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// An endpoint has the properties of this side that the negotiation needs.
type endpoint struct {
	ps     PortSpace
	hasQP  bool // the ID has a queue pair; qpNum and srq describe it
	qpNum  uint32
	srq    bool
	serves uint8 // number of READs and atomics that the device can serve at a time
	issues uint8 // number of READs and atomics that the device can have outstanding
}

// connectParam checks the parameters of Connect and returns them completed for the
// transport. Nil means the largest depths of the device and the largest retry counts.
// Source: rdma_connect(3).
func (e *endpoint) connectParam(p *ConnParam) (*ConnParam, error) {
	if p == nil {
		p = &ConnParam{
			ResponderResources: DepthMax,
			InitiatorDepth:     DepthMax,
			RetryCount:         verbs.MaxRetry,
			RNRRetryCount:      verbs.MaxRetry,
		}
	}
	if err := checkPrivateData(e.ps, MessageConnect, p.PrivateData); err != nil {
		return nil, err
	}
	if e.ps == UDP {
		// A lookup asks for the peer's queue pair and does not send ours.
		return &ConnParam{PrivateData: p.PrivateData}, nil
	}
	out := *p
	if err := e.describeQP(&out); err != nil {
		return nil, err
	}
	if err := atMost("retry count", out.RetryCount, verbs.MaxRetry); err != nil {
		return nil, err
	}
	replaceMax(&out, e.serves, e.issues)
	return &out, checkCounts(&out, e.serves, e.issues)
}

// acceptParam checks the parameters of Accept against the request and returns them
// completed for the transport. Nil means the values of the request, lowered to the
// limits of the device. The active side's retry count applies to both sides. Source:
// rdma_accept(3).
func (e *endpoint) acceptParam(p, request *ConnParam) (*ConnParam, error) {
	if p == nil {
		p = &ConnParam{
			ResponderResources: DepthMax,
			InitiatorDepth:     DepthMax,
			FlowControl:        request.FlowControl,
			RNRRetryCount:      min(request.RNRRetryCount, verbs.MaxRetry),
		}
	}
	if err := checkPrivateData(e.ps, MessageAccept, p.PrivateData); err != nil {
		return nil, err
	}
	out := *p
	if err := e.describeQP(&out); err != nil {
		return nil, err
	}
	if e.ps == UDP {
		return &ConnParam{PrivateData: p.PrivateData, QPNum: out.QPNum, QKey: out.QKey}, nil
	}
	out.RetryCount = request.RetryCount
	// The initiator depth must not exceed the InitiatorDepth of the request, because the
	// peer does not serve more READs and atomics at a time (rdma_accept(3)). Larger
	// responder resources than the peer will use are allowed.
	issues := min(e.issues, request.InitiatorDepth)
	replaceMax(&out, min(e.serves, request.ResponderResources), issues)
	return &out, checkCounts(&out, e.serves, issues)
}

// replaceMax replaces DepthMax by the given values.
func replaceMax(p *ConnParam, resources, depth uint8) {
	if p.ResponderResources == DepthMax {
		p.ResponderResources = resources
	}
	if p.InitiatorDepth == DepthMax {
		p.InitiatorDepth = depth
	}
}

// checkCounts checks the numbers that both sides send. A retry count has three bits;
// librdmacm silently uses 7 for a larger one.
func checkCounts(p *ConnParam, resources, depth uint8) error {
	if err := atMost("responder resources", p.ResponderResources, resources); err != nil {
		return err
	}
	if err := atMost("initiator depth", p.InitiatorDepth, depth); err != nil {
		return err
	}
	return atMost("RNR retry count", p.RNRRetryCount, verbs.MaxRetry)
}

// describeQP sets and checks the fields that describe the queue pair to the peer. If the
// ID has a queue pair, they describe it. Otherwise they keep the values of the caller.
func (e *endpoint) describeQP(p *ConnParam) error {
	if e.hasQP {
		p.QPNum, p.SRQ, p.QKey = e.qpNum, e.srq, 0
	}
	if p.QPNum == 0 {
		return invalid("QP number", 0, "required for an ID without queue pair")
	}
	if e.ps == TCP {
		p.QKey = 0
	} else if p.QKey == 0 {
		p.QKey = DefaultQKey
	}
	return atMost("QP number", p.QPNum, verbs.MaxQPNum)
}
