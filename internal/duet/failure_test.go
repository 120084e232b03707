package duet_test

import "github.com/rdmaloop/rdmaloop/verbs"

// A failure is a request that ends a connection.
type failure struct {
	name    string
	request func(*conn) verbs.SendWR
	status  verbs.Status // that it ends with
	silent  bool         // because the other end has stopped to answer
	refused bool         // because the other end can not allow it, which is its end, too
	letters int          // at the other end
}

func failurePieces() (pieces []piece) {
	message := func(c *conn) verbs.SendWR { return c.request(verbs.OpSend, source, 8) }
	wrongKey := func(c *conn) verbs.SendWR {
		wr := c.to(c.request(verbs.OpWrite, source, 8), 0)
		wr.RKey ^= 1
		return wr
	}
	for _, f := range []failure{
		{"retries run out", message, verbs.StatusRetryExcErr, true, false, 0},
		{"RNR retries run out", message, verbs.StatusRNRRetryExcErr, false, false, 0},
		{"wrong key", wrongKey, verbs.StatusRemAccessErr, false, true, letters},
	} {
		pieces = append(pieces,
			piece{f.name + " for the first",
				func(p *player) { f.fail(p.connect(f.active())) },
				func(p *player) { f.watch(p.accept(f.passive())) }},
			piece{f.name + " for the second",
				func(p *player) { f.watch(p.connect(f.passive())) },
				func(p *player) { f.fail(p.accept(f.active())) }})
	}
	return pieces
}

// Who connects says how often both retry.
const fewRetries = 3

func (f *failure) active() manners {
	return manners{letters, fewRetries, verbs.RNRRetryForever, ackTimeout}
}

// passive is the end without a receive buffer, which may answer or not.
func (f *failure) passive() manners {
	m := manners{f.letters, fewRetries, verbs.RNRRetryForever, ackTimeout}
	if !f.silent {
		m.rnrRetries = 1
	}
	return m
}

// fail makes the request. What is behind it is flushed, and so are the receives.
func (f *failure) fail(c *conn) {
	c.post(f.request(c), c.request(verbs.OpSend, source, 8))
	c.p.Zero(c.sends.take(1, f.status)[0].ID)
	c.p.EqualValues(1, c.sends.take(1, verbs.StatusWRFlushErr)[0].ID)
	c.p.Equal(verbs.StateError, c.qp.State())
	c.recvs.take(letters, verbs.StatusWRFlushErr)
	c.leave()
}

// watch is the other end, which learns of it only when the connection is ended.
func (f *failure) watch(c *conn) {
	if f.silent {
		c.p.NoError(c.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	}
	if f.refused {
		c.recvs.take(f.letters, verbs.StatusWRFlushErr)
		c.p.Equal(verbs.StateError, c.qp.State())
	}
	c.left()
}
