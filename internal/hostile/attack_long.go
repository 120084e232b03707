//go:build linux

package hostile

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Format of the protocol for long messages: see reactor/internal/longmsg.
const (
	longMagic    = 0x726C6D01
	longFirstImm = 0x726C6D6C // immediate data of control messages
	longAnnounce = 1
	longDone     = 2
	longRename   = 3
)

// longOffer returns the private data of a connection request that offers long messages of
// up to limit bytes.
func longOffer(limit uint32) []byte {
	b := make([]byte, 56)
	binary.BigEndian.PutUint32(b[48:], longMagic)
	binary.BigEndian.PutUint32(b[52:], limit)
	return b
}

// A longSegment is a segment of an announcement.
type longSegment struct {
	reactor.Remote
	length uint32
}

// longControl returns a control message.
func longControl(kind byte, number uint32, segments ...longSegment) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind, 0, byte(len(segments)), 0}, number)
	for _, s := range segments {
		b = binary.BigEndian.AppendUint64(b, s.Addr)
		b = binary.BigEndian.AppendUint32(b, s.RKey)
		b = binary.BigEndian.AppendUint32(b, s.length)
	}
	return b
}

// longMemory is the size in bytes of the memory that an attacker announces.
const longMemory = 64 << 10

// A longPeer is the attacker's end of one connection. Its engine has no long messages, so
// it builds all messages of the protocol itself.
type longPeer struct {
	reactor.BaseHandler
	conn   *reactor.Conn
	region *reactor.Region // memory that the server may read
	good   longSegment     // the whole region
	attack func(p *longPeer)
	// onAnnouncement is called when the server has announced its n-th long message. Nil means
	// that the attacker does not answer.
	onAnnouncement func(p *longPeer, n int)
	announced      int
	ended          chan error // closed when the connection has ended; gets the error of a dial before
}

// dialLong opens a connection that offers long messages.
func (n *node) dialLong(s *Spec, p *longPeer) error {
	p.ended = make(chan error, 1)
	o := &reactor.DialOptions{Handler: p, LocalAddr: s.localAddr(), PrivateData: longOffer(1<<32 - 1)}
	return n.engine.Dial(s.Addr, o)
}

// OnOpen sends an ordinary message. The attack begins with its echo, because an attack
// before the connection is open at the server would prevent its opening.
func (p *longPeer) OnOpen(c *reactor.Conn) {
	p.conn = c
	var err error
	if p.region, err = c.Loop().Engine().Alloc(longMemory, verbs.AccessRemoteRead); err == nil {
		var at reactor.Remote
		if at, err = p.region.Remote(c.Info().Device, 0, longMemory); err == nil {
			p.good = longSegment{at, longMemory}
			err = c.Send([]byte("hello"), nil)
		}
	}
	if err != nil {
		_ = c.Abort(err)
	}
}

// OnMessage begins the attack, and counts the announcements of the server.
func (p *longPeer) OnMessage(_ *reactor.Conn, m reactor.Message) {
	if attack := p.attack; attack != nil {
		p.attack = nil
		attack(p)
		return
	}
	if imm, ok := m.Imm(); ok && imm == longFirstImm && m.Data()[0] == longAnnounce {
		if p.announced++; p.onAnnouncement != nil {
			p.onAnnouncement(p, p.announced)
		}
	}
}

// OnClose releases the memory.
func (p *longPeer) OnClose(*reactor.Conn, error) {
	if p.region != nil {
		p.region.CloseFunc(nil)
	}
	close(p.ended)
}

// OnDialError ends the attack.
func (p *longPeer) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	p.ended <- err
	close(p.ended)
}

// control sends b as a control message. Errors are ignored: then the connection is
// ending.
func (p *longPeer) control(b []byte) {
	_ = p.conn.Send(b, &reactor.OpOptions{HasImm: true, Imm: longFirstImm})
}

func (p *longPeer) announce(s ...longSegment) { p.control(longControl(longAnnounce, 0, s...)) }

// A longViolation is what an attacker does on one connection, and the kind of the error
// with which the connection must end at the server.
type longViolation struct {
	name           string
	kind           string
	attack         func(p *longPeer)
	onAnnouncement func(p *longPeer, n int)
}

// kindLongRead is the kind of a violation whose READ the attacker's device refuses. The
// queue pairs of both sides end then, and the attacker's DREQ may be handled before its NAK,
// because they are of different queue pairs. So the connection ends with KindLong or with
// KindPeerClosed.
const kindLongRead = "refused READ"

// longViolations returns the violations of RoleLongViolator, which uses them in turn.
func longViolations() []longViolation {
	return slices.Concat(wrongMemory(), wrongFields(), wrongOrder())
}

// longDoneWith returns a function that confirms long messages of the server.
func longDoneWith(numbers ...uint32) func(p *longPeer, n int) {
	return func(p *longPeer, _ int) {
		for _, n := range numbers {
			p.control(longControl(longDone, n))
		}
	}
}

// announceGood announces valid memory.
func announceGood(p *longPeer) { p.announce(p.good) }

// falseEnd ends a connection after a valid message: it confirms more than the echo.
func falseEnd(p *longPeer, n int) { longDoneWith(9)(p, n) }

// wrongMemory returns the announcements of wrong memory.
func wrongMemory() []longViolation {
	changed := func(change func(s *longSegment)) func(p *longPeer) {
		return func(p *longPeer) {
			s := p.good
			change(&s)
			p.announce(s)
		}
	}
	segments := func(n int) func(p *longPeer) {
		return func(p *longPeer) {
			list := make([]longSegment, n)
			for i := range list { // They overlap.
				list[i] = longSegment{reactor.Remote{Addr: p.good.Addr + uint64(i), RKey: p.good.RKey}, 8 << 10}
			}
			p.announce(list...)
		}
	}
	return []longViolation{
		{"wrong key", kindLongRead, changed(func(s *longSegment) { s.RKey ^= 1 << 20 }), nil},
		{"wrong address", kindLongRead, changed(func(s *longSegment) { s.Addr += 1 << 40 }), nil},
		{"address 0", kindLongRead, changed(func(s *longSegment) { s.Addr = 0 }), nil},
		{"one byte too many", kindLongRead, changed(func(s *longSegment) { s.length++ }), nil},
		{"address at the end", kindLongRead, changed(func(s *longSegment) { s.Addr = 1<<64 - longMemory }), nil},
		{"address that wraps", KindLong, changed(func(s *longSegment) { s.Addr = 1<<64 - longMemory + 1 }), nil},
		{"length 0", KindLong, changed(func(s *longSegment) { s.length = 0 }), nil},
		{"largest length", KindLong, changed(func(s *longSegment) { s.length = 1<<32 - 1 }), nil},
		{"largest lengths", KindLong, func(p *longPeer) {
			s := p.good
			s.length = 1<<32 - 1
			p.announce(s, s, s, s, s, s, s, s)
		}, nil},
		{"second segment wrong", kindLongRead, func(p *longPeer) { p.announce(p.good, longSegment{reactor.Remote{Addr: 1, RKey: 1}, 1}) }, nil},
		{"no segment", KindLong, func(p *longPeer) { p.announce() }, nil},
		{"too many segments", KindLong, segments(9), nil},
		{"overlapping segments", KindLong, segments(8), falseEnd},
		{"memory that ends", kindLongRead, func(p *longPeer) {
			for range 8 {
				p.announce(p.good)
			}
			p.region.CloseFunc(nil)
			p.region = nil
			p.announce(p.good)
		}, nil},
	}
}

// wrongFields returns the control messages with wrong fields.
func wrongFields() []longViolation {
	bytesOf := func(change func(b []byte) []byte) func(p *longPeer) {
		return func(p *longPeer) { p.control(change(longControl(longAnnounce, 0, p.good))) }
	}
	field := func(at int, v byte) func(p *longPeer) {
		return bytesOf(func(b []byte) []byte { b[at] = v; return b })
	}
	return []longViolation{
		{"no header", KindLong, func(p *longPeer) { p.control(nil) }, nil},
		{"short header", KindLong, bytesOf(func(b []byte) []byte { return b[:7] }), nil},
		{"short segment", KindLong, bytesOf(func(b []byte) []byte { return b[:len(b)-1] }), nil},
		{"one more byte", KindLong, bytesOf(func(b []byte) []byte { return append(b, 0) }), nil},
		{"kind 0", KindLong, field(0, 0), nil},
		{"kind 255", KindLong, field(0, 255), nil},
		{"unknown flag", KindLong, field(1, 2), nil},
		{"reserved byte", KindLong, field(3, 1), nil},
		{"255 segments", KindLong, field(2, 255), nil},
		{"number without a flag", KindLong, field(7, 1), nil},
	}
}

// wrongOrder returns the violations of the order of messages.
func wrongOrder() []longViolation {
	return []longViolation{
		{"completion of nothing", KindLong, func(p *longPeer) { p.control(longControl(longDone, 1)) }, nil},
		{"completion 0", KindLong, func(p *longPeer) { p.control(longControl(longDone, 0)) }, nil},
		{"completion 2^32-1", KindLong, func(p *longPeer) { p.control(longControl(longDone, 1<<32-1)) }, nil},
		{"completion of a later message", KindLong, announceGood, falseEnd},
		{"completion twice", KindLong, announceGood, longDoneWith(1, 1)},
		{"completions in the wrong order", KindLong, func(p *longPeer) { p.announce(p.good); p.announce(p.good) },
			func(p *longPeer, n int) {
				if n == 2 {
					longDoneWith(2, 1)(p, n)
				}
			}},
		{"segments in a completion", KindLong, func(p *longPeer) { p.control(longControl(longDone, 1, p.good)) }, nil},
		{"other name, and the old one", KindLong, func(p *longPeer) {
			p.control(longControl(longRename, 1<<32-1))
			p.announce(p.good) // an ordinary message now
			_ = p.conn.Send(nil, &reactor.OpOptions{HasImm: true, Imm: 1<<32 - 1})
		}, nil},
		{"too many behind", KindLong, func(p *longPeer) {
			for range 40 {
				p.announce(p.good)
			}
		}, nil},
		{"close behind it", KindPeerClosed, func(p *longPeer) {
			p.announce(p.good)
			p.announce(p.good)
			_ = p.conn.Abort(nil)
		}, nil},
	}
}

// violateLong opens one connection in each round and violates the protocol for long
// messages. Attack.Refused counts the connections that the server has ended.
func violateLong(a *attacker) error {
	list := longViolations()
	return a.violateInTurn(len(list), func(n *node, i int) (string, <-chan error, error) {
		v := &list[i]
		p := &longPeer{attack: v.attack, onAnnouncement: v.onAnnouncement}
		err := n.dialLong(&a.spec, p)
		return v.name, p.ended, err
	})
}
