package duet_test

import "github.com/rdmaloop/rdmaloop/verbs"

// A failure is a request that fails and ends its connection.
type failure struct {
	name    string
	request func(*conn) verbs.SendWR
	// Completion status of the request.
	status verbs.Status
	// The observer's queue pair is put into the error state first, so it does not
	// answer.
	observerStopped bool
	// The observer's queue pair enters the error state too, because the request is not
	// allowed there.
	observerFails bool
	// Receive buffers of the observer.
	recvBuffers int
}

func failureScenarios() (pieces []scenario) {
	message := func(c *conn) verbs.SendWR { return c.newWR(verbs.OpSend, source, 8) }
	wrongKey := func(c *conn) verbs.SendWR {
		wr := c.withRemote(c.newWR(verbs.OpWrite, source, 8), 0)
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

// fewRetries is the retry count of both sides, which the active side sets.
const fewRetries = 3

// requesterParams are for the side that makes the request.
func (f *failure) requesterParams() connParams {
	return connParams{recvBuffers, fewRetries, verbs.RNRRetryForever, ackTimeout}
}

// observerParams are for the side that does not make the request.
func (f *failure) observerParams() connParams {
	params := connParams{f.recvBuffers, fewRetries, verbs.RNRRetryForever, ackTimeout}
	if !f.observerStopped {
		params.rnrRetries = 1
	}
	return params
}

// runRequester posts the failing request. The request behind it and the receives are
// flushed.
func (f *failure) runRequester(c *conn) {
	c.post(f.request(c), c.newWR(verbs.OpSend, source, 8))
	c.p.Zero(c.sends.take(1, f.status)[0].ID)
	c.p.EqualValues(1, c.sends.take(1, verbs.StatusWRFlushErr)[0].ID)
	c.p.Equal(verbs.StateError, c.qp.State())
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
	c.disconnect()
}

// observe is the other side. It notices the end of the connection when the requester
// disconnects.
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
