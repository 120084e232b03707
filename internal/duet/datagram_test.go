package duet_test

import (
	"bytes"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func datagramPieces() []piece {
	return []piece{
		{"nobody to look up", lookUpNobody, func(*player) {}},
		{"lookup refused", beTurnedAway, turnAway},
		{"datagrams", lookUp, beFound},
	}
}

// datagramSize is the payload of one: as much as the path can take.
const datagramSize = 1024

// datagram is one to a queue pair, with immediate data.
func (c *conn) datagram(to verbs.AHAttr, qpn uint32, imm uint32) verbs.SendWR {
	c.p.t.Helper()
	ah, err := c.p.pd.CreateAH(&to)
	c.p.NoError(err)
	closing(c.p.t, ah)
	wr := c.request(verbs.OpSendImm, source, datagramSize)
	wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey = imm, ah, qpn, cm.DefaultQKey
	return wr
}

// got takes a datagram.
func (c *conn) got(seed uint64, imm uint32) verbs.WC {
	c.p.t.Helper()
	wc := c.recvs.one()
	c.p.Equal(verbs.WCWithGRH|verbs.WCWithImm, wc.Flags)
	c.p.Equal(imm, wc.Imm)
	c.p.EqualValues(verbs.GRHSize+datagramSize, wc.ByteLen)
	want := make([]byte, datagramSize)
	fill(want, seed)
	c.p.True(bytes.Equal(want, c.bytes(letter(int(wc.ID))+verbs.GRHSize, datagramSize)))
	return wc
}

func lookUp(p *player) {
	c := p.equip(p.resolve(cm.UDP, p.peer.Port(), 0), letters)
	p.NoError(c.id.Connect(&cm.ConnParam{PrivateData: text(4, 180)}))
	ev := p.await(c.id, cm.Established)
	p.Equal(text(5, 136), ev.param.PrivateData)
	p.EqualValues(cm.DefaultQKey, ev.ud.QKey)
	fill(c.bytes(source, datagramSize), 1)
	c.post(c.datagram(ev.ud.AH, ev.ud.QPN, 0xfeed))
	c.sends.one()
	p.Equal(ev.ud.QPN, c.got(2, 0xbeef).SrcQPN)
}

// beFound answers to the address that the lookup came from.
func beFound(p *player) {
	ev := p.request(p.lookups)
	p.Equal(text(4, 180), ev.param.PrivateData)
	c := p.equip(ev.id, letters)
	p.NoError(c.id.Accept(&cm.ConnParam{PrivateData: text(5, 136)}))
	from := c.got(1, 0xfeed).SrcQPN
	fill(c.bytes(source, datagramSize), 2)
	c.post(c.datagram(c.wayBack(), from, 0xbeef))
	c.sends.one()
}

// wayBack leads to the peer's address.
func (c *conn) wayBack() verbs.AHAttr {
	c.p.t.Helper()
	port, err := c.p.device.Port(c.id.Port())
	c.p.NoError(err)
	own := slices.Index(port.GIDs, verbs.GIDFromAddr(c.id.LocalAddr().Addr()))
	c.p.GreaterOrEqual(own, 0)
	return verbs.AHAttr{
		DestGID: verbs.GIDFromAddr(c.id.RemoteAddr().Addr()), Port: c.id.Port(), SourceIndex: own, HopLimit: 64,
	}
}

func beTurnedAway(p *player) {
	c := p.equip(p.resolve(cm.UDP, p.peer.Port(), 0), 0)
	p.NoError(c.id.Connect(nil))
	var refused *cm.UnreachableError
	p.ErrorAs(p.await(c.id, cm.Unreachable).err, &refused)
	p.Equal(cm.SIDRReject, refused.SIDR)
	p.Equal(text(6, 136), refused.PrivateData)
	p.True(refused.ByApplication)
}

func turnAway(p *player) { p.NoError(p.request(p.lookups).id.Reject(text(6, 136))) }

func lookUpNobody(p *player) {
	c := p.equip(p.resolve(cm.UDP, p.peer.Port()+1, 0), 0)
	p.NoError(c.id.Connect(nil))
	var refused *cm.UnreachableError
	p.ErrorAs(p.await(c.id, cm.Unreachable).err, &refused)
	p.Equal(cm.SIDRUnsupported, refused.SIDR)
}
