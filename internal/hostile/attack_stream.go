//go:build linux

package hostile

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Immediate data of the rsocket protocol: see stream/internal/rsocket/message.go.
const (
	streamCredit    = 4 << 29
	streamMapping   = 6 << 29
	streamKeepalive = 7<<29 | 1
	streamShutdown  = 7<<29 | 2
)

// A streamHello is the private data with which a side describes its memory: see
// stream/internal/rsocket/message.go.
type streamHello struct {
	credits                uint16
	table, first           reactor.Remote
	entries, length        uint32
	version, flags, ignore byte
}

func (h *streamHello) encode() []byte {
	b := []byte{h.version, h.flags}
	b = binary.BigEndian.AppendUint16(b, h.credits)
	b = append(b, 0, 0, 0, h.ignore)
	b = binary.BigEndian.AppendUint64(b, h.table.Addr)
	b = binary.BigEndian.AppendUint32(b, h.table.RKey)
	b = binary.BigEndian.AppendUint32(b, h.entries)
	b = binary.BigEndian.AppendUint64(b, h.first.Addr)
	b = binary.BigEndian.AppendUint32(b, h.first.RKey)
	return binary.BigEndian.AppendUint32(b, h.length)
}

func decodeStreamHello(b []byte) (h streamHello, ok bool) {
	if len(b) < 40 {
		return h, false
	}
	h.credits = binary.BigEndian.Uint16(b[2:])
	h.table = reactor.Remote{Addr: binary.BigEndian.Uint64(b[8:]), RKey: binary.BigEndian.Uint32(b[16:])}
	h.first = reactor.Remote{Addr: binary.BigEndian.Uint64(b[24:]), RKey: binary.BigEndian.Uint32(b[32:])}
	h.entries, h.length = binary.BigEndian.Uint32(b[20:]), binary.BigEndian.Uint32(b[36:])
	return h, true
}

// A streamPeer is the attacker's end of one stream. It uses package reactor and builds
// the messages of the stream itself.
type streamPeer struct {
	reactor.BaseHandler
	conn   *reactor.Conn
	own    streamHello
	server streamHello // description of the server's memory
	change func(h *streamHello)
	attack func(p *streamPeer)
	flood  int           // number of messages that flood still has to send
	opened chan struct{} // closed when the stream is open
	ended  chan error    // closed when the stream has ended; gets the error of a dial before
}

// dialStream opens a stream. The function change may change the Hello of this side, and
// attack is called when the stream is open at the server. Both may be nil.
func (n *node) dialStream(s *Spec, change func(*streamHello), attack func(*streamPeer)) (*streamPeer, error) {
	p := &streamPeer{change: change, attack: attack, opened: make(chan struct{}), ended: make(chan error, 1)}
	o := &reactor.DialOptions{Handler: p, LocalAddr: s.localAddr(), ImmediatesOnly: true, PrivateDataFor: p.hello}
	return p, n.engine.Dial(s.Addr, o)
}

// streamRing is the size in bytes of an attacker's ring. The attacker never reads.
const streamRing = 4096

// hello returns the private data, with memory for a ring and a table of two segments.
func (p *streamPeer) hello(c *reactor.Conn) ([]byte, error) {
	region, err := c.Loop().Engine().Alloc(2*streamRing, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	c.UserData = region
	at, err := region.Remote(c.Info().Device, 0, 2*streamRing)
	if err != nil {
		return nil, err
	}
	p.own = streamHello{
		version: 1, flags: 2, credits: 100, entries: 2, length: streamRing / 2, first: at,
		table: reactor.Remote{Addr: at.Addr + streamRing, RKey: at.RKey},
	}
	if p.change != nil {
		p.change(&p.own)
	}
	return p.own.encode(), nil
}

// OnOpen stores the description of the server's memory.
func (p *streamPeer) OnOpen(c *reactor.Conn) {
	p.conn = c
	p.server, _ = decodeStreamHello(c.Info().PeerPrivateData)
	close(p.opened)
}

// OnMessage begins the attack with the server's first message. An attack before the
// stream is open at the server would prevent its opening.
func (p *streamPeer) OnMessage(*reactor.Conn, reactor.Message) {
	if attack := p.attack; attack != nil {
		p.attack = nil
		attack(p)
	}
}

// OnWritable continues a flood.
func (p *streamPeer) OnWritable(*reactor.Conn) { p.keepFlooding() }

// OnClose releases the memory.
func (p *streamPeer) OnClose(c *reactor.Conn, _ error) {
	c.UserData.(*reactor.Region).CloseFunc(nil)
	close(p.ended)
}

// OnDialError ends the attack.
func (p *streamPeer) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	p.ended <- err
	close(p.ended)
}

// imm sends immediate data without a payload. Errors are ignored: then the connection is
// ending.
func (p *streamPeer) imm(imm uint32) { p.write(reactor.Remote{}, 0, imm) }

// write writes n bytes to the server, with immediate data.
func (p *streamPeer) write(to reactor.Remote, n int, imm uint32) {
	_ = p.conn.WriteBytes(to, make([]byte, n), &reactor.OpOptions{HasImm: true, Imm: imm})
}

// data writes n bytes at an offset in the ring of the server.
func (p *streamPeer) data(at, n int) {
	p.write(reactor.Remote{Addr: p.server.first.Addr + uint64(at), RKey: p.server.first.RKey}, n, uint32(n))
}

// keepFlooding sends messages that have no effect, and at last one that ends the stream.
func (p *streamPeer) keepFlooding() {
	for ; p.flood > 0; p.flood-- {
		m := uint32(streamKeepalive)
		if p.flood%2 == 0 {
			m = streamCredit | uint32(p.own.credits) // no further credit
		}
		if p.conn.WriteBytes(reactor.Remote{}, nil, &reactor.OpOptions{HasImm: true, Imm: m}) != nil {
			return
		}
		if p.flood == 1 {
			p.imm(5 << 29)
		}
	}
}

// A streamViolation is what an attacker does on one stream, and the kind of the error
// with which the stream must end at the server.
type streamViolation struct {
	name   string
	kind   string
	change func(h *streamHello)
	attack func(p *streamPeer)
}

// streamViolations returns the violations of RoleStreamViolator, which uses them in turn.
func streamViolations() []streamViolation {
	accessErr, forbidden := verbs.StatusRemAccessErr.String(), verbs.AsyncQPAccessError.String()
	return []streamViolation{
		{"undefined operation", KindStream, nil, func(p *streamPeer) { p.imm(5 << 29) }},
		{"undefined control", KindStream, nil, func(p *streamPeer) { p.imm(7<<29 | 3) }},
		{"mapping", KindStream, nil, func(p *streamPeer) { p.imm(streamMapping) }},
		{"no data", KindStream, nil, func(p *streamPeer) { p.imm(0) }},
		{"more data than was offered", KindStream, nil, func(p *streamPeer) { p.imm(1<<29 - 1) }},
		{"data across segments", KindStream, nil, func(p *streamPeer) {
			p.data(0, 100)
			p.imm(p.server.length) // 100 bytes more than the segment has
		}},
		{"data behind the end", KindStream, nil, func(p *streamPeer) { p.imm(streamShutdown); p.data(0, 1) }},
		{"a credit taken back", KindStream, nil, func(p *streamPeer) { p.imm(streamCredit | 50) }},
		{"too many credits", KindStream, nil, func(p *streamPeer) {
			for i := range 4 {
				p.imm(streamCredit | uint32(uint16(100+(i+1)*30_000)))
			}
		}},
		{"message without immediate data", KindStream, nil, func(p *streamPeer) { _ = p.conn.Send(nil, nil) }},
		{"flood of messages without effect", KindStream, nil, func(p *streamPeer) { p.flood = 20_000; p.keepFlooding() }},
		{"key of the table is wrong", accessErr, func(h *streamHello) { h.table.RKey ^= 1 << 20 }, nil},
		{"address of the table is wrong", accessErr, func(h *streamHello) { h.table.Addr += 1 << 40 }, nil},
		{"table of 2^32-1 segments", accessErr, func(h *streamHello) { h.entries = 1<<32 - 1; h.table.Addr = 1<<64 - 16 }, nil},
		{"key of the ring is wrong", accessErr, func(h *streamHello) { h.first.RKey ^= 1 << 20 }, func(p *streamPeer) { p.data(0, 64) }},
		{"ring of 4 GiB", accessErr, func(h *streamHello) { h.length = 1<<32 - 1; h.first.Addr = 1<<64 - 32 }, func(p *streamPeer) { p.data(0, 64) }},
		{"message with a payload", verbs.StatusLocLenErr.String(), nil, func(p *streamPeer) { _ = p.conn.Send([]byte("bytes"), nil) }},
		{"write behind the memory", forbidden, nil, func(p *streamPeer) { p.data(1<<30, 64) }},
		{"write with a wrong key", forbidden, nil, func(p *streamPeer) { p.server.first.RKey ^= 1 << 20; p.data(0, 64) }},
		{"WRITE of the table and behind it", forbidden, nil, func(p *streamPeer) {
			p.write(p.server.table, 32, streamKeepalive)
			p.write(p.server.table, 1<<16, streamKeepalive)
		}},
		{"message that invalidates the key of the ring", verbs.StatusRemInvReqErr.String(), nil, func(p *streamPeer) {
			_ = p.conn.Send(nil, &reactor.OpOptions{Invalidate: p.server.first.RKey})
		}},
	}
}

// violateStreams opens one stream in each round and violates the protocol. Attack.Refused
// counts the streams that the server has ended.
func violateStreams(a *attacker) error {
	list := streamViolations()
	return a.violateInTurn(len(list), func(n *node, i int) (string, <-chan error, error) {
		v := &list[i]
		p, err := n.dialStream(&a.spec, v.change, v.attack)
		if err != nil {
			return v.name, nil, err
		}
		return v.name, p.ended, nil
	})
}

// silentStreams opens streams and sends nothing on them. Attack.Admitted counts those
// that are open, and Attack.Refused those that were refused or have ended.
func silentStreams(a *attacker) error {
	raiseDescriptors()
	n := &node{}
	s := Spec{Path: a.spec.Path, MaxConns: a.spec.Conns + 1, AckTimeout: a.spec.AckTimeout}
	if err := n.open(&s, reactor.BaseHandler{}); err != nil {
		return err
	}
	// A dial takes long on the loop of a busy server, so only some are under way at a time.
	const underWay = 64
	var peers []*streamPeer
	for i := range a.spec.Conns {
		p, err := n.dialStream(&a.spec, nil, nil)
		if err != nil {
			return errors.Join(err, n.close())
		}
		peers = append(peers, p)
		if i >= underWay {
			a.waitStream(peers[i-underWay])
		}
	}
	for _, p := range peers[max(0, len(peers)-underWay):] {
		a.waitStream(p)
	}
	a.waitForStop()
	return n.close()
}

// waitStream waits until a stream is open or refused, and counts it.
func (a *attacker) waitStream(p *streamPeer) {
	select {
	case <-p.opened:
		a.count(func(c *Attack) { c.Admitted++ })
	case <-p.ended:
		a.count(func(c *Attack) { c.Refused++ })
	case <-a.ctx.Done():
	}
}

// halfOpenStreams sends a request for a stream in each round, and does not confirm the
// reply. It keeps its sockets open, so that the server does not notice. Attack.Admitted
// counts the replies on the local path.
func halfOpenStreams(a *attacker) error {
	hello := streamHello{version: 1, flags: 2, credits: 100, entries: 2, length: streamRing / 2}
	if a.spec.From.IsValid() {
		return halfOpenOnWire(a, hello.encode())
	}
	raiseDescriptors()
	var kept []localSocket
	defer func() {
		for _, s := range kept {
			s.close()
		}
	}()
	port := uint16(a.rand.Uint32())
	err := a.eachRound(func() error {
		s, err := newLocalSocket()
		if err != nil || len(kept) == maxKept {
			return err
		}
		kept = append(kept, s)
		src := netip.AddrPortFrom(a.spec.Addr.Addr(), s.bindNext(a.spec.Addr.Addr(), &port))
		a.requestAndKeep(s, src, hello.encode()...)
		return nil
	})
	if err != nil {
		return err
	}
	a.waitForStop()
	return nil
}

// halfOpenOnWire is halfOpenStreams on the wire path.
func halfOpenOnWire(a *attacker, hello []byte) error {
	s, err := openWire(a.spec.From)
	if err != nil {
		return err
	}
	defer s.close()
	go a.countReplies(s)
	err = a.eachRound(func() error {
		p := newWirePeer(s, a.spec.Addr, a.rand)
		p.private = hello
		n := p.sendMAD(p.request(), a.spec.Addr.Addr())
		a.count(func(c *Attack) { c.Sent++; c.SentBytes += uint64(n) })
		return nil
	})
	if err != nil {
		return err
	}
	a.waitForStop()
	return nil
}
