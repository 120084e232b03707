package duet_test

import (
	"encoding/binary"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

const (
	mebibyte = 1 << 20
	// A connection's memory has parts: what is sent from, what the peer works on,
	// what is read into, and what is received into.
	source, shared, sink, mailbox = 0, mebibyte, 2 * mebibyte, 3 * mebibyte

	letterSize = 64 << 10
	memorySize = mailbox + letters*letterSize
	letters    = 8 // receive buffers
	depth      = 32
)

// A conn is a player's end of a connection, or its datagram queue pair.
type conn struct {
	p      *player
	id     *cm.ID
	qp     verbs.QP
	mr     verbs.MR
	sends  *queue
	recvs  *queue
	posted int // receives, and so the place of the next

	remote uint64 // what the peer shares
	rkey   uint32
}

// manners are how an end behaves.
type manners struct {
	letters    int   // receive buffers that it posts before it is connected
	retries    uint8 // of the transport, at both ends; for who connects
	rnrRetries uint8 // of the peer, when there is no receive buffer here
	ackTimeout uint8 // of the transport, as a code; for who connects
}

// usual are patient ones. In rxe 7 retries have no end.
func usual() manners {
	return manners{letters: letters, retries: 7, rnrRetries: verbs.RNRRetryForever, ackTimeout: ackTimeout}
}

// ackTimeout is the code of 134 ms.
const ackTimeout = 15

// equip gives an ID queues, memory and a queue pair.
func (p *player) equip(id *cm.ID, recvs int) *conn {
	p.t.Helper()
	c := &conn{p: p, id: id, sends: p.newQueue(2 * depth), recvs: p.newQueue(2 * depth)}
	var err error
	c.mr, err = p.pd.Alloc(&verbs.AllocAttr{Size: memorySize, Access: verbs.AccessAll})
	p.NoError(err)
	closing(p.t, c.mr)
	p.NoError(id.CreateQP(p.pd, &verbs.QPInitAttr{
		Type: id.PortSpace().QPType(), SendCQ: c.sends.cq, RecvCQ: c.recvs.cq,
		Caps: verbs.QPCaps{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1},
	}))
	p.t.Cleanup(func() { p.NoError(id.CloseQP()) })
	c.qp = id.QP()
	for range recvs {
		c.recv()
	}
	return c
}

// connect is the first player's way to a connection.
func (p *player) connect(m manners) *conn {
	p.t.Helper()
	c := p.equip(p.resolve(cm.TCP, p.peer.Port(), m.ackTimeout), m.letters)
	p.NoError(c.id.Connect(&cm.ConnParam{
		PrivateData: c.card(), ResponderResources: 4, InitiatorDepth: 4, RetryCount: m.retries, RNRRetryCount: m.rnrRetries,
	}))
	c.meet(p.await(c.id, cm.Established))
	return c
}

// accept is the second player's.
func (p *player) accept(m manners) *conn {
	p.t.Helper()
	ev := p.requestFor(cardMark)
	c := p.equip(ev.id, m.letters)
	c.meet(ev)
	p.NoError(c.id.Accept(&cm.ConnParam{
		PrivateData: c.card(), ResponderResources: 4, InitiatorDepth: 4, RNRRetryCount: m.rnrRetries,
	}))
	p.await(c.id, cm.Established)
	return c
}

// cardMark is the first byte of a card.
const cardMark = 0xca

// card is what an end tells of itself: where the memory is that it shares.
func (c *conn) card() []byte {
	b := binary.BigEndian.AppendUint64([]byte{cardMark}, c.mr.Addr()+shared)
	return binary.BigEndian.AppendUint32(b, c.mr.RKey())
}

// meet reads the peer's.
func (c *conn) meet(ev event) {
	b := ev.param.PrivateData
	c.p.GreaterOrEqual(len(b), 13)
	c.remote, c.rkey = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint32(b[9:])
}

func (c *conn) bytes(offset, length int) []byte { return c.mr.Bytes()[offset : offset+length] }

func (c *conn) word(offset int) uint64 { return binary.NativeEndian.Uint64(c.bytes(offset, 8)) }

// letter is where the i-th receive puts what comes.
func letter(i int) int { return mailbox + i%letters*letterSize }

// recv posts the next receive. Its id is its number.
func (c *conn) recv() {
	c.p.t.Helper()
	_, err := c.qp.PostRecv([]verbs.RecvWR{{
		ID: uint64(c.posted), SGEs: []verbs.SGE{verbs.SGEOf(c.mr, letter(c.posted), letterSize)},
	}})
	c.p.NoError(err)
	c.posted++
}

// request is a signaled one, from or to own memory.
func (c *conn) request(op verbs.Opcode, offset, length int) verbs.SendWR {
	return verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(c.mr, offset, length)}}
}

// to makes it one on what the peer shares.
func (c *conn) to(wr verbs.SendWR, offset int) verbs.SendWR {
	wr.RemoteAddr, wr.RKey = c.remote+uint64(offset), c.rkey
	return wr
}

func (c *conn) post(wrs ...verbs.SendWR) {
	c.p.t.Helper()
	for i := range wrs {
		wrs[i].ID = uint64(i)
	}
	n, err := c.qp.PostSend(wrs)
	c.p.NoError(err)
	c.p.Equal(len(wrs), n)
}

// tell gives the peer its turn.
func (c *conn) tell() {
	c.p.t.Helper()
	c.post(c.request(verbs.OpSend, source, 0))
	c.sends.one()
}

// hear waits for that.
func (c *conn) hear() {
	c.p.t.Helper()
	c.p.Zero(c.recvs.one().ByteLen)
}

// lastWord gives the peer its turn, which is to leave. It may have left when an
// acknowledgement gets lost.
func (c *conn) lastWord() {
	c.p.t.Helper()
	c.post(c.request(verbs.OpSend, source, 0))
	c.left()
	c.p.until("the fate of the last word", func() bool { return len(c.sends.wcs) > 0 })
	c.p.Contains([]verbs.Status{verbs.StatusSuccess, verbs.StatusWRFlushErr}, c.sends.wcs[0].Status)
}

// leave ends the connection: the queue pair fails, and the peer is told.
func (c *conn) leave() {
	c.p.t.Helper()
	c.p.NoError(c.id.Disconnect())
	c.p.await(c.id, cm.Disconnected)
	c.p.Equal(verbs.StateError, c.qp.State())
}

// left is what the other end does then.
func (c *conn) left() {
	c.p.t.Helper()
	c.p.await(c.id, cm.Disconnected)
	c.p.NoError(c.id.Disconnect())
	c.p.Equal(verbs.StateError, c.qp.State())
}

func withPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}
