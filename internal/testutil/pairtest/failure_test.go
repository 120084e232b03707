package pairtest_test

import "github.com/rdmaloop/rdmaloop/verbs"

// A failure is a scenario in which a failing request ends the connection. The requester
// is the side that posts this request, and the observer is the other side.
type failure struct {
	name    string
	request func(*conn) verbs.SendWR
	// Completion status of the failing request.
	status verbs.Status
	// True if the observer enters the error state before the request arrives. So the
	// request gets no answer.
	observerStopped bool
	// True if the observer must refuse the request and enter the error state.
	observerFails bool
	// Receive buffers that the observer posts.
	recvBuffers int
}

func failureScenarios() (pieces []scenario) {
	message := func(c *conn) verbs.SendWR { return c.newWR(verbs.OpSend, sourceArea, 8) }
	wrongKey := func(c *conn) verbs.SendWR {
		wr := c.withRemote(c.newWR(verbs.OpWrite, sourceArea, 8), 0)
		wr.RKey ^= 1
		return wr
	}
	for _, f := range []failure{
		{"retries run out", message, verbs.StatusRetryExcErr, true, false, 0},
		{"RNR retries run out", message, verbs.StatusRNRRetryExcErr, false, false, 0},
		{"wrong key", wrongKey, verbs.StatusRemAccessErr, false, true, recvBuffers},
	} {
		pieces = append(pieces,
			scenario{f.name + " at the active side",
				func(p *peer) { f.runRequester(p.connect(f.requesterParams())) },
				func(p *peer) { f.observe(p.accept(f.observerParams())) }},
			scenario{f.name + " at the passive side",
				func(p *peer) { f.observe(p.connect(f.observerParams())) },
				func(p *peer) { f.runRequester(p.accept(f.requesterParams())) }})
	}
	return pieces
}

// Transport retry count of both sides.
const fewRetries = 3

func (f *failure) requesterParams() connParams {
	return connParams{recvBuffers, fewRetries, verbs.RNRRetryForever, ackTimeout}
}

func (f *failure) observerParams() connParams {
	params := connParams{f.recvBuffers, fewRetries, verbs.RNRRetryForever, ackTimeout}
	if !f.observerStopped {
		params.rnrRetries = 1
	}
	return params
}

// runRequester posts two requests, of which the first one fails. The second request and
// all receive buffers must be flushed.
func (f *failure) runRequester(c *conn) {
	c.post(f.request(c), c.newWR(verbs.OpSend, sourceArea, 8))
	c.p.Zero(c.sends.take(1, f.status)[0].ID)
	c.p.EqualValues(1, c.sends.take(1, verbs.StatusWRFlushErr)[0].ID)
	c.p.Equal(verbs.StateError, c.qp.State())
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
	c.disconnect()
}

// observe runs the observer until the requester disconnects.
func (f *failure) observe(c *conn) {
	if f.observerStopped {
		c.p.NoError(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
	if f.observerFails {
		c.recvs.take(f.recvBuffers, verbs.StatusWRFlushErr)
		c.p.Equal(verbs.StateError, c.qp.State())
	}
	c.awaitDisconnect()
}
