package pairtest_test

import (
	"bytes"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func datagramScenarios() []scenario {
	return []scenario{
		{"lookup of an unknown service", lookUpUnknownService, func(*peer) {}},
		{"lookup rejected", expectSIDRReject, rejectSIDR},
		{"datagrams", lookUp, answerLookup},
	}
}

// datagramSize is the payload of a datagram in bytes: the path MTU.
const datagramSize = 1024

// datagram returns a work request for a datagram with immediate data.
func (c *conn) datagram(to verbs.AHAttr, qpn uint32, imm uint32) verbs.SendWR {
	c.p.t.Helper()
	ah, err := c.p.pd.CreateAH(&to)
	c.p.NoError(err)
	closeAtCleanup(c.p.t, ah)
	wr := c.newWR(verbs.OpSendImm, sourceArea, datagramSize)
	wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey = imm, ah, qpn, cm.DefaultQKey
	return wr
}

// recvDatagram waits for a datagram with the pattern of the seed.
func (c *conn) recvDatagram(seed uint64, imm uint32) verbs.WC {
	c.p.t.Helper()
	wc := c.recvs.takeOne()
	c.p.Equal(verbs.WCWithGRH|verbs.WCWithImm, wc.Flags)
	c.p.Equal(imm, wc.Imm)
	c.p.EqualValues(verbs.GRHSize+datagramSize, wc.ByteLen)
	want := make([]byte, datagramSize)
	fill(want, seed)
	c.p.True(bytes.Equal(want, c.bytes(recvOffset(int(wc.ID))+verbs.GRHSize, datagramSize)))
	return wc
}

// lookUp looks up the peer's queue pair with a SIDR REQ, sends a datagram to it, and
// receives the answer.
func lookUp(p *peer) {
	c := p.newConn(p.resolve(cm.UDP, p.remoteAddr.Port(), 0), recvBuffers)
	p.NoError(c.id.Connect(&cm.ConnParam{PrivateData: text(4, 180)}))
	ev := p.await(c.id, cm.Established)
	p.Equal(text(5, 136), ev.param.PrivateData)
	p.EqualValues(cm.DefaultQKey, ev.ud.QKey)
	fill(c.bytes(sourceArea, datagramSize), 1)
	c.post(c.datagram(ev.ud.AH, ev.ud.QPN, 0xfeed))
	c.sends.takeOne()
	p.Equal(ev.ud.QPN, c.recvDatagram(2, 0xbeef).SrcQPN)
}

// answerLookup accepts the SIDR REQ of lookUp, receives a datagram, and answers it.
func answerLookup(p *peer) {
	ev := p.awaitRequest(p.udpListener)
	p.Equal(text(4, 180), ev.param.PrivateData)
	c := p.newConn(ev.id, recvBuffers)
	p.NoError(c.id.Accept(&cm.ConnParam{PrivateData: text(5, 136)}))
	from := c.recvDatagram(1, 0xfeed).SrcQPN
	fill(c.bytes(sourceArea, datagramSize), 2)
	c.post(c.datagram(c.remoteAH(), from, 0xbeef))
	c.sends.takeOne()
}

// remoteAH returns the attributes of an address handle for the peer.
func (c *conn) remoteAH() verbs.AHAttr {
	c.p.t.Helper()
	port, err := c.p.device.Port(c.id.Port())
	c.p.NoError(err)
	own := slices.Index(port.GIDs, verbs.GIDFromAddr(c.id.LocalAddr().Addr()))
	c.p.GreaterOrEqual(own, 0)
	return verbs.AHAttr{
		DestGID: verbs.GIDFromAddr(c.id.RemoteAddr().Addr()), Port: c.id.Port(), SourceIndex: own, HopLimit: 64,
	}
}

func expectSIDRReject(p *peer) {
	c := p.newConn(p.resolve(cm.UDP, p.remoteAddr.Port(), 0), 0)
	p.NoError(c.id.Connect(nil))
	var refused *cm.RejectError
	p.ErrorAs(p.await(c.id, cm.Unreachable).err, &refused)
	p.Equal(cm.SIDRReject, refused.SIDR)
	p.Equal(text(6, 136), refused.PrivateData)
	p.True(refused.ByApplication)
}

func rejectSIDR(p *peer) { p.NoError(p.awaitRequest(p.udpListener).id.Reject(text(6, 136))) }

func lookUpUnknownService(p *peer) {
	c := p.newConn(p.resolve(cm.UDP, p.remoteAddr.Port()+1, 0), 0)
	p.NoError(c.id.Connect(nil))
	var refused *cm.RejectError
	p.ErrorAs(p.await(c.id, cm.Unreachable).err, &refused)
	p.Equal(cm.SIDRUnsupported, refused.SIDR)
}
