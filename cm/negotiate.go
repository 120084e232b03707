package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// An endpoint describes this side of a connection. Its limits restrict the connection
// parameters.
type endpoint struct {
	ps        PortSpace
	hasQP     bool // true if the ID has a queue pair, which qpNum and srq describe
	qpNum     uint32
	srq       bool
	maxServed uint8 // number of the peer's READs and atomics that the device serves at once
	maxIssued uint8 // number of own READs and atomics that the device can have outstanding
}

// connectParam checks the parameters of Connect and returns the message to send. Source:
// rdma_connect(3).
func (e *endpoint) connectParam(p *ConnParam) (*MessageParam, error) {
	if p == nil {
		p = &ConnParam{}
	}
	if err := checkPrivateData(e.ps, MessageConnect, p.PrivateData); err != nil {
		return nil, err
	}
	if e.ps == UDP {
		// A lookup is a SIDR_REQ, which has no field for a queue pair number.
		return &MessageParam{PrivateData: p.PrivateData}, nil
	}
	out, err := e.describe(p)
	if err != nil {
		return nil, err
	}
	if out.RetryCount, err = count("retry count", p.RetryCount, verbs.MaxRetry, verbs.MaxRetry); err != nil {
		return nil, err
	}
	return out, out.setCounts(p, usualCounts{served: e.maxServed, rnrRetry: verbs.MaxRetry}, e.maxServed, e.maxIssued)
}

// acceptParam checks the parameters of Accept, and returns the message to send. The
// retry count of the request holds for both sides (rdma_accept(3)).
func (e *endpoint) acceptParam(p *ConnParam, request *MessageParam) (*MessageParam, error) {
	if p == nil {
		p = &ConnParam{}
	}
	if err := checkPrivateData(e.ps, MessageAccept, p.PrivateData); err != nil {
		return nil, err
	}
	out, err := e.describe(p)
	if err != nil {
		return nil, err
	}
	if e.ps == UDP {
		return &MessageParam{PrivateData: p.PrivateData, QPNum: out.QPNum, QKey: out.QKey}, nil
	}
	out.RetryCount = request.RetryCount
	// The peer serves request.InitiatorDepth READs and atomics of this side at a time.
	// This side must not have more outstanding (rdma_accept(3)).
	usual := usualCounts{served: min(e.maxServed, request.ResponderResources), rnrRetry: min(request.RNRRetryCount, verbs.MaxRetry)}
	return out, out.setCounts(p, usual, e.maxServed, min(e.maxIssued, request.InitiatorDepth))
}

// usualCounts has the numbers that are sent if the application leaves a count zero.
type usualCounts struct {
	served   uint8 // number to send as ResponderResources
	rnrRetry uint8 // number to send as RNRRetryCount
}

// setCounts converts three of the wanted counts and stores them in p.
func (p *MessageParam) setCounts(wanted *ConnParam, usual usualCounts, maxServed, maxIssued uint8) (err error) {
	if p.ResponderResources, err = count("responder resources", wanted.ResponderResources, usual.served, maxServed); err != nil {
		return err
	}
	if p.InitiatorDepth, err = count("initiator depth", wanted.InitiatorDepth, maxIssued, maxIssued); err != nil {
		return err
	}
	p.RNRRetryCount, err = count("RNR retry count", wanted.RNRRetryCount, usual.rnrRetry, verbs.MaxRetry)
	return err
}

// count converts one count of a ConnParam. Zero becomes usualNumber, and a negative
// count becomes zero.
func count(field string, wanted int, usualNumber, limit uint8) (uint8, error) {
	switch {
	case wanted == 0:
		return usualNumber, nil
	case wanted < 0:
		return 0, nil
	}
	return uint8(wanted), atMost(field, wanted, int(limit))
}

// describe returns a message without counts. It describes the queue pair of the ID, or
// else the one in p.
func (e *endpoint) describe(p *ConnParam) (*MessageParam, error) {
	out := &MessageParam{PrivateData: p.PrivateData, FlowControl: p.FlowControl, SRQ: p.SRQ, QPNum: p.QPNum, QKey: p.QKey}
	if e.hasQP {
		out.QPNum, out.SRQ, out.QKey = e.qpNum, e.srq, 0
	}
	if out.QPNum == 0 {
		return nil, invalid("QP number", 0, "required for an ID without queue pair")
	}
	if e.ps == TCP {
		out.QKey = 0
	} else if out.QKey == 0 {
		out.QKey = DefaultQKey
	}
	return out, atMost("QP number", out.QPNum, verbs.MaxQPNum)
}
