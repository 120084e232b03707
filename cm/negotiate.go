package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// maxQPNum is the largest queue pair number: it has 24 bits.
const maxQPNum = 1<<24 - 1

// An endpoint is what this side brings into a connection.
type endpoint struct {
	ps     PortSpace
	hasQP  bool // qpNum and srq are those of the ID's queue pair
	qpNum  uint32
	srq    bool
	serves uint8 // READs and atomics its device can serve at a time
	issues uint8 // READs and atomics its device can have outstanding
}

// connectParam checks the caller's parameters and completes them for the
// transport. Nil asks for as much as the device can do, and all the retries.
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
		// A lookup asks for the peer's queue pair and does not tell ours.
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

// acceptParam checks the caller's parameters against the request and completes
// them. Nil takes over the request's values, as far as the device can follow.
// The retry count is the active side's, for both ends. Source: rdma_accept(3).
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
	// rdma_accept(3): the initiator depth must not exceed the request's, for
	// the peer refuses what it did not prepare to serve. To serve more than the
	// peer will ask for is allowed.
	issues := min(e.issues, request.InitiatorDepth)
	replaceMax(&out, min(e.serves, request.ResponderResources), issues)
	return &out, checkCounts(&out, e.serves, issues)
}

// replaceMax puts what DepthMax stands for in its place.
func replaceMax(p *ConnParam, resources, depth uint8) {
	if p.ResponderResources == DepthMax {
		p.ResponderResources = resources
	}
	if p.InitiatorDepth == DepthMax {
		p.InitiatorDepth = depth
	}
}

// checkCounts checks the numbers that both sides send. A retry count has three
// bits; librdmacm makes a 7 of larger ones without a word.
func checkCounts(p *ConnParam, resources, depth uint8) error {
	if err := atMost("responder resources", p.ResponderResources, resources); err != nil {
		return err
	}
	if err := atMost("initiator depth", p.InitiatorDepth, depth); err != nil {
		return err
	}
	return atMost("RNR retry count", p.RNRRetryCount, verbs.MaxRetry)
}

// describeQP sets the queue pair that the peer will be told: the ID's, or else
// the one the caller names.
func (e *endpoint) describeQP(p *ConnParam) error {
	if e.hasQP {
		p.QPNum, p.SRQ, p.QKey = e.qpNum, e.srq, 0
	}
	if p.QPNum == 0 {
		return invalid("QP number", 0, "needed on an ID without queue pair")
	}
	if e.ps == TCP {
		p.QKey = 0
	} else if p.QKey == 0 {
		p.QKey = DefaultQKey
	}
	return atMost("QP number", p.QPNum, maxQPNum)
}
