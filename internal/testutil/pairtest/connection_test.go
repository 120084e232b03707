package pairtest_test

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func connectionScenarios() []scenario {
	return []scenario{
		{"private data and parameters", connectWithParams, acceptWithParams},
		{"rejected", expectRejects, rejectTwo},
		{"no listener", connectUnboundPort, func(*peer) {}},
		{"active side disconnects", disconnectActive, awaitDisconnectPassive},
		{"passive side disconnects", awaitDisconnectActive, disconnectPassive},
	}
}

// text returns n bytes of private data without zero bytes. The parameter start is the
// first byte.
func text(start byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = start + byte(i)%100
	}
	return b
}

// connectWithParams and acceptWithParams use a different value for each parameter. Each
// side checks the parameters of the other side and the attributes of its own queue pair.
func connectWithParams(p *peer) {
	c := p.newConn(p.resolve(cm.TCP, p.remoteAddr.Port(), ackTimeout), recvBuffers)
	p.NoError(c.id.Connect(&cm.ConnParam{
		PrivateData: text(1, 56), ResponderResources: 3, InitiatorDepth: 2, FlowControl: true, RetryCount: 5, RNRRetryCount: 4,
	}))
	ev := p.await(c.id, cm.Established)
	p.Equal(text(2, 196), ev.param.PrivateData)
	p.EqualValues(1, ev.param.ResponderResources, "READs and atomics that the peer may have outstanding")
	p.EqualValues(2, ev.param.InitiatorDepth)
	attr, err := c.qp.Query()
	p.NoError(err)
	p.Equal(ev.param.QPNum, attr.DestQPN)
	p.EqualValues(5, attr.RetryCount)
	p.EqualValues(6, attr.RNRRetry)
	p.EqualValues(2, attr.MaxRdAtomic)
	c.waitForSignal()
	c.disconnect()
}

func acceptWithParams(p *peer) {
	ev := p.awaitRequest(p.tcpListener)
	p.Equal(text(1, 56), ev.param.PrivateData)
	p.EqualValues(2, ev.param.ResponderResources)
	p.EqualValues(3, ev.param.InitiatorDepth)
	p.True(ev.param.FlowControl)
	p.EqualValues(5, ev.param.RetryCount)
	p.EqualValues(4, ev.param.RNRRetryCount)
	c := p.newConn(ev.id, 0)
	p.NoError(c.id.Accept(&cm.ConnParam{PrivateData: text(2, 196), ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 6}))
	p.await(c.id, cm.Established)
	attr, err := c.qp.Query()
	p.NoError(err)
	p.Equal(ev.param.QPNum, attr.DestQPN)
	p.EqualValues(5, attr.RetryCount)
	p.EqualValues(4, attr.RNRRetry)
	p.EqualValues(1, attr.MaxRdAtomic)
	p.GreaterOrEqual(attr.Timeout, uint8(ackTimeout), "the kernel adds the devices' delay")
	c.signalAndAwaitDisconnect()
}

// expectRejects sends two connection requests. The peer rejects the first with private
// data and the second without.
func expectRejects(p *peer) {
	for i, want := range []struct {
		data          []byte
		byApplication bool
	}{{text(3, 148), true}, {make([]byte, 148), false}} {
		c := p.newConn(p.resolve(cm.TCP, p.remoteAddr.Port(), ackTimeout), 0)
		p.NoError(c.id.Connect(&cm.ConnParam{PrivateData: []byte{byte(i + 1)}}))
		var refused *cm.RejectError
		p.ErrorAs(p.await(c.id, cm.Rejected).err, &refused)
		p.Equal(cm.RejectConsumer, refused.Reason)
		p.True(bytes.Equal(want.data, refused.PrivateData))
		p.Equal(want.byApplication, refused.ByApplication)
	}
}

func rejectTwo(p *peer) {
	p.NoError(p.awaitMarkedRequest(1).id.Reject(text(3, 148)))
	p.NoError(p.awaitMarkedRequest(2).id.Reject(nil))
}

// connectUnboundPort connects to a port without a listener.
func connectUnboundPort(p *peer) {
	c := p.newConn(p.resolve(cm.TCP, p.remoteAddr.Port()+1, ackTimeout), 0)
	p.NoError(c.id.Connect(nil))
	var refused *cm.RejectError
	p.ErrorAs(p.await(c.id, cm.Rejected).err, &refused)
	p.Equal(cm.RejectInvalidServiceID, refused.Reason)
	p.False(refused.ByApplication)
}

// The active side waits for a message before it disconnects. Otherwise its DREQ could
// arrive before its RTU.

func disconnectActive(p *peer) {
	c := p.connect(defaultParams())
	c.waitForSignal()
	c.disconnect()
	c.recvs.take(recvBuffers-1, verbs.StatusWRFlushErr)
}

func awaitDisconnectPassive(p *peer) {
	c := p.accept(defaultParams())
	c.signalAndAwaitDisconnect()
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
}

func awaitDisconnectActive(p *peer) {
	c := p.connect(defaultParams())
	c.awaitDisconnect()
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
}

func disconnectPassive(p *peer) {
	c := p.accept(defaultParams())
	c.disconnect()
	c.recvs.take(recvBuffers, verbs.StatusWRFlushErr)
}
