package providertest

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func negotiationCases() []testCase {
	return []testCase{
		{"counts that are not set have the usual values", usualCounts},
		{"nil asks for the usual values", nilParam},
		{"negative counts mean zero", zeroCounts},
		{"an answer can repeat the request", repeatRequest},
		{"an answer repeats the RNR retry count", repeatRNRRetry},
	}
}

// A counts has a queue pair's limits for READs and atomics, and its retry counts.
type counts struct{ served, outstanding, retry, rnrRetry uint8 }

func (e *end) counts() counts {
	e.r.t.Helper()
	attr, err := e.qp.Query()
	e.r.NoError(err)
	return counts{attr.MaxDestRdAtomic, attr.MaxRdAtomic, attr.RetryCount, attr.RNRRetry}
}

// usual returns the counts of both queue pairs if both sides ask for the defaults.
func (r *rig) usual() counts {
	depth := min(r.attr.MaxQPRdAtom, r.attr.MaxQPInitRdAtom)
	return counts{served: depth, outstanding: depth, retry: verbs.MaxRetry, rnrRetry: verbs.RNRRetryForever}
}

func usualCounts(r *rig) {
	p := r.pair(func(a, b *plan) {
		a.param = cm.ConnParam{PrivateData: []byte("let me in")}
		b.param = cm.ConnParam{PrivateData: []byte("welcome")}
	})
	r.Equal(r.usual(), p.a.counts())
	r.Equal(r.usual(), p.b.counts())
}

func nilParam(r *rig) {
	request := r.request(nil)
	r.NoError(request.b.id.Accept(nil))
	r.await(request.a.id, cm.Established)
	r.await(request.b.id, cm.Established)
	r.Equal(r.usual(), request.a.counts())
	r.Equal(r.usual(), request.b.counts())
}

// zeroCounts passes negative counts to Connect and Accept. The messages must have zeros.
func zeroCounts(r *rig) {
	none := cm.ConnParam{ResponderResources: -1, InitiatorDepth: -1, RetryCount: -1, RNRRetryCount: -1}
	request := r.request(&none)
	asked := request.asked.param
	r.Zero(asked.ResponderResources)
	r.Zero(asked.InitiatorDepth)
	r.Zero(asked.RetryCount)
	r.Zero(asked.RNRRetryCount)
	r.NoError(request.b.id.Accept(&none))
	answer := r.await(request.a.id, cm.Established).param
	r.Zero(answer.ResponderResources)
	r.Zero(answer.InitiatorDepth)
	r.Zero(answer.RNRRetryCount)
	r.await(request.b.id, cm.Established)
	r.Equal(counts{}, request.a.counts())
	r.Equal(counts{}, request.b.counts())
}

func repeatRequest(r *rig) {
	request := r.request(&cm.ConnParam{PrivateData: []byte("echo"), ResponderResources: -1, InitiatorDepth: 1, RNRRetryCount: 3})
	param := request.asked.param.ConnParam()
	param.PrivateData = request.asked.param.PrivateData
	r.NoError(request.b.id.Accept(param))
	answer := r.await(request.a.id, cm.Established).param
	r.Equal("echo", string(answer.PrivateData[:4]))
	r.Zero(answer.ResponderResources, "a serves no READs")
	r.Equal(uint8(1), answer.InitiatorDepth)
	r.Equal(uint8(3), answer.RNRRetryCount)
	r.await(request.b.id, cm.Established)
}

// repeatRNRRetry checks that Accept repeats the RNR retry count of the request, unless
// its caller sets another.
func repeatRNRRetry(r *rig) {
	for _, param := range []*cm.ConnParam{nil, {PrivateData: []byte("welcome")}} {
		request := r.request(&cm.ConnParam{RNRRetryCount: 3})
		r.NoError(request.b.id.Accept(param))
		answer := r.await(request.a.id, cm.Established).param
		r.Equal(uint8(3), answer.RNRRetryCount)
		r.False(answer.FlowControl)
		r.await(request.b.id, cm.Established)
	}
}
