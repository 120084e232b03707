package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// An endpoint has the properties of this side of a connection that determine what this
// side sends in a connection message.
type endpoint struct {
	ps     PortSpace
	hasQP  bool // whether the ID has a queue pair, which qpNum and srq describe
	qpNum  uint32
	srq    bool
	serves uint8 // number of the peer's READs and atomics that the device can serve at a time
	issues uint8 // number of own READs and atomics that the device can have outstanding
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
		// A lookup asks for the number of the peer's queue pair. It does not send the
		// number of this side's queue pair.
		return &MessageParam{PrivateData: p.PrivateData}, nil
	}
	out, err := e.describe(p)
	if err != nil {
		return nil, err
	}
	if out.RetryCount, err = count("retry count", p.RetryCount, verbs.MaxRetry, verbs.MaxRetry); err != nil {
		return nil, err
	}
	return out, out.setCounts(p, usualCounts{serves: e.serves, rnrRetry: verbs.MaxRetry}, e.serves, e.issues)
}

// acceptParam checks the parameters of Accept against the request, and returns the
// message to send. The retry count of the request applies to both sides. Source:
// rdma_accept(3).
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
	// The initiator depth must not exceed the InitiatorDepth of the request, because the
	// peer does not serve more READs and atomics at a time (rdma_accept(3)).
	// ResponderResources may be larger than the number that the peer will use.
	usual := usualCounts{serves: min(e.serves, request.ResponderResources), rnrRetry: min(request.RNRRetryCount, verbs.MaxRetry)}
	return out, out.setCounts(p, usual, e.serves, min(e.issues, request.InitiatorDepth))
}

// usualCounts has the values that setCounts uses for those counts that the application
// left zero.
type usualCounts struct {
	serves   uint8 // usual value of ResponderResources
	rnrRetry uint8 // usual value of RNRRetryCount
}

// setCounts stores in the message p the counts that the application asked for, in the
// parameter asked. A count of zero in asked means the usual value: for ResponderResources
// and RNRRetryCount the value in the parameter usual, for InitiatorDepth the largest
// allowed value. The largest allowed ResponderResources is the parameter serves, and the
// largest allowed InitiatorDepth is the parameter issues.
func (p *MessageParam) setCounts(asked *ConnParam, usual usualCounts, serves, issues uint8) (err error) {
	if p.ResponderResources, err = count("responder resources", asked.ResponderResources, usual.serves, serves); err != nil {
		return err
	}
	if p.InitiatorDepth, err = count("initiator depth", asked.InitiatorDepth, issues, issues); err != nil {
		return err
	}
	p.RNRRetryCount, err = count("RNR retry count", asked.RNRRetryCount, usual.rnrRetry, verbs.MaxRetry)
	return err
}

// count converts a count of ConnParam to the number in the message. If the parameter
// asked is zero, count returns the parameter usual. If asked is negative, count returns
// zero. If asked is above limit, the error is a *verbs.ParamError; librdmacm instead
// silently lowers a retry count that does not fit into its three bits.
func count(field string, asked int, usual, limit uint8) (uint8, error) {
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0:
		return 0, nil
	}
	return uint8(asked), atMost(field, asked, int(limit))
}

// describe returns a message with the fields that do not depend on the limits of the
// device. If the ID has a queue pair, the message describes that queue pair. Otherwise
// the message describes the queue pair whose number is in p.
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
