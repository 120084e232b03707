package duet_test

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func connectionPieces() []piece {
	return []piece{
		{"private data and parameters", offer, answer},
		{"refused", beRefused, refuse},
		{"nobody listens", findNobody, func(*player) {}},
		{"first hangs up", hangUp, beHungUp},
		{"second hangs up", waitForEnd, endIt},
	}
}

// text is n bytes of private data, none of them 0, different for each start.
func text(start byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = start + byte(i)%100
	}
	return b
}

func offer(p *player) {
	c := p.equip(p.resolve(cm.TCP, p.peer.Port(), ackTimeout), letters)
	p.NoError(c.id.Connect(&cm.ConnParam{
		PrivateData: text(1, 56), ResponderResources: 3, InitiatorDepth: 2, FlowControl: true, RetryCount: 5, RNRRetryCount: 4,
	}))
	ev := p.await(c.id, cm.Established)
	p.Equal(text(2, 196), ev.param.PrivateData)
	p.EqualValues(1, ev.param.ResponderResources, "what the peer has outstanding")
	p.EqualValues(2, ev.param.InitiatorDepth)
	attr, err := c.qp.Query()
	p.NoError(err)
	p.Equal(ev.param.QPNum, attr.DestQPN)
	p.EqualValues(5, attr.RetryCount)
	p.EqualValues(6, attr.RNRRetry)
	p.EqualValues(2, attr.MaxRdAtomic)
	c.hear()
	c.leave()
}

func answer(p *player) {
	ev := p.request(p.connections)
	p.Equal(text(1, 56), ev.param.PrivateData)
	p.EqualValues(2, ev.param.ResponderResources)
	p.EqualValues(3, ev.param.InitiatorDepth)
	p.True(ev.param.FlowControl)
	p.EqualValues(5, ev.param.RetryCount)
	p.EqualValues(4, ev.param.RNRRetryCount)
	c := p.equip(ev.id, 0)
	p.NoError(c.id.Accept(&cm.ConnParam{PrivateData: text(2, 196), ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 6}))
	p.await(c.id, cm.Established)
	attr, err := c.qp.Query()
	p.NoError(err)
	p.Equal(ev.param.QPNum, attr.DestQPN)
	p.EqualValues(5, attr.RetryCount)
	p.EqualValues(4, attr.RNRRetry)
	p.EqualValues(1, attr.MaxRdAtomic)
	p.GreaterOrEqual(attr.Timeout, uint8(ackTimeout), "a kernel adds what devices take")
	c.lastWord()
}

func beRefused(p *player) {
	for i, want := range []struct {
		data          []byte
		byApplication bool
	}{{text(3, 148), true}, {make([]byte, 148), false}} {
		c := p.equip(p.resolve(cm.TCP, p.peer.Port(), ackTimeout), 0)
		p.NoError(c.id.Connect(&cm.ConnParam{PrivateData: []byte{byte(i + 1)}}))
		var refused *cm.RejectError
		p.ErrorAs(p.await(c.id, cm.Rejected).err, &refused)
		p.Equal(cm.RejectConsumer, refused.Reason)
		p.True(bytes.Equal(want.data, refused.PrivateData))
		p.Equal(want.byApplication, refused.ByApplication)
	}
}

func refuse(p *player) {
	p.NoError(p.requestFor(1).id.Reject(text(3, 148)))
	p.NoError(p.requestFor(2).id.Reject(nil))
}

func findNobody(p *player) {
	c := p.equip(p.resolve(cm.TCP, p.peer.Port()+1, ackTimeout), 0)
	p.NoError(c.id.Connect(nil))
	var refused *cm.RejectError
	p.ErrorAs(p.await(c.id, cm.Rejected).err, &refused)
	p.Equal(cm.RejectInvalidServiceID, refused.Reason)
	p.False(refused.ByApplication)
}

// Whoever disconnects, what is outstanding is flushed at both ends. The first waits
// for a word, because its goodbye may overtake what establishes the connection.

func hangUp(p *player) {
	c := p.connect(usual())
	c.hear()
	c.leave()
	c.recvs.take(letters-1, verbs.StatusWRFlushErr)
}

func beHungUp(p *player) {
	c := p.accept(usual())
	c.lastWord()
	c.recvs.take(letters, verbs.StatusWRFlushErr)
}

func waitForEnd(p *player) {
	c := p.connect(usual())
	c.left()
	c.recvs.take(letters, verbs.StatusWRFlushErr)
}

func endIt(p *player) {
	c := p.accept(usual())
	c.leave()
	c.recvs.take(letters, verbs.StatusWRFlushErr)
}
