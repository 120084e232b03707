//go:build linux

package reactortest_test

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An area is memory of one connection in the region of an instance. The server counts the
// FetchAdds of the client in the first bytes, and the client writes to the slots. The client
// has the data that it writes and reads in the same places of its own area.
const (
	areaSize  = 16 << 10
	slotSize  = 2 << 10
	slots     = 4
	slotsAt   = 64
	readsAt   = slotsAt + slots*slotSize
	areaCount = 512
)

// A slot is a part of an area. The number begins with 1; zero means none.
type slot struct {
	number int
	at     int // offset of the data in the pattern
	length int
}

func (s slot) offset() int { return slotsAt + (s.number-1)*slotSize }

// An asker is the client of a connection: it sends requests.
type asker struct {
	*end
	session *session
	full    bool // too many requests have no answer
	memory  []byte
	area    int // offset of the area in the region of the instance

	target  reactor.Remote // area of this connection at the server
	source  reactor.Remote // pattern at the server
	adds    int            // number of FetchAdds that have succeeded
	inUse   [slots + 1]int // reasons why a slot is in use
	reading bool           // a READ is outstanding
}

// askLimit is how many requests of one connection may have no answer.
const askLimit = 24

func (k *asker) opened() {
	if k.a.oneSided {
		private := k.conn.Info().PeerPrivateData
		k.expect(k.target.UnmarshalBinary(private) == nil && k.source.UnmarshalBinary(private[reactor.RemoteSize:]) == nil, "the private data of the server is too short")
		k.area, k.memory = k.in.newArea()
	}
	switch {
	case k.a.closes(2):
		k.close()
		return
	case k.a.chance(32) && k.a.limits:
		k.limit()
	}
	k.burst()
}

// burst sends some requests, and continues after a pause.
func (k *asker) burst() {
	if k.state != endOpen || k.a.stopping {
		return
	}
	for range 1 + k.a.rng.IntN(k.a.burst) {
		if k.full = len(k.sent)-k.got >= askLimit; k.full {
			return // received continues
		}
		if !k.ask() {
			return // writable continues
		}
		if k.state != endOpen {
			return
		}
	}
	pause := 2 * k.a.pause
	if k.session.fresh {
		pause = k.a.bound / 50 // Only the other clients still need time.
	}
	k.conn.Loop().After(k.a.upTo(pause), k.burst)
}

// ask sends a request. It returns false if it was not accepted.
func (k *asker) ask() bool {
	if !k.a.oneSided {
		return k.send(k.a.length(), slot{})
	}
	switch k.a.rng.IntN(6) {
	case 0:
		return k.write()
	case 1:
		return k.read()
	case 2:
		return k.add()
	default:
		return k.send(k.a.length(), slot{})
	}
}

// write writes to a slot at the server, and sends a request.
func (k *asker) write() bool {
	s := slot{number: 1 + k.a.rng.IntN(slots), length: k.a.rng.IntN(slotSize + 1)}
	if k.inUse[s.number] > 0 {
		return k.send(k.a.length(), slot{})
	}
	s.at = k.a.rng.IntN(len(pattern) - s.length)
	copy(k.memory[s.offset():], pattern[s.at:][:s.length])
	local := reactor.Piece{Region: k.in.region, Offset: k.area + s.offset(), Length: s.length}
	remote := reactor.Remote{Addr: k.target.Addr + uint64(s.offset()), RKey: k.target.RKey}
	o := k.options()
	withImm := k.a.chance(2)
	imm := k.a.rng.Uint32()
	if withImm {
		o.HasImm, o.Imm = true, imm
	}
	if !k.wasAccepted(k.conn.Write(remote, &o, local)) {
		return false
	}
	k.inUse[s.number]++ // until the completion
	k.accepted(operation{message: withImm, reported: true, bytes: s.length, done: func(reactor.Op, error) { k.inUse[s.number]-- }})
	if withImm {
		k.sent = append(k.sent, message{imm: imm, hasImm: true, onlyImm: true, written: s, time: k.a.w.Now()})
	} else if !k.send(k.a.length(), s) {
		return false
	}
	k.inUse[s.number]++ // until the answer
	return true
}

// read reads a part of the server's pattern.
func (k *asker) read() bool {
	if k.reading {
		return true
	}
	n := k.a.rng.IntN(areaSize - readsAt)
	at := k.a.rng.IntN(len(pattern) - n)
	got := k.memory[readsAt:][:n]
	clear(got)
	local := reactor.Piece{Region: k.in.region, Offset: k.area + readsAt, Length: n}
	o := k.options()
	if !k.wasAccepted(k.conn.Read(reactor.Remote{Addr: k.source.Addr + uint64(at), RKey: k.source.RKey}, &o, local)) {
		return false
	}
	k.reading = true
	k.accepted(operation{reported: true, bytes: n, done: func(_ reactor.Op, err error) {
		k.reading = false
		k.expect(err != nil || bytes.Equal(got, pattern[at:][:n]), "a READ of %d bytes has returned other bytes", n)
	}})
	return true
}

// add adds 1 to the server's counter.
func (k *asker) add() bool {
	o := k.options()
	if !k.wasAccepted(k.conn.FetchAdd(k.target, 1, &o)) {
		return false
	}
	k.accepted(operation{reported: true, bytes: 8, done: func(op reactor.Op, err error) {
		if err == nil {
			k.expect(int(op.Value) == k.adds, "FetchAdd %d has returned %d", k.adds, op.Value)
			k.adds++
		}
	}})
	return true
}

func (k *asker) received(got reactor.Message, _ *message) {
	request := &k.sent[k.got-1]
	k.inUse[request.written.number]--
	k.session.answered(request)
	k.keep(got)
	if k.a.closes(1) {
		k.close()
		return
	}
	if k.full && len(k.sent)-k.got < askLimit/2 {
		k.burst()
	}
}

func (k *asker) writable() {
	if k.a.closes(1) {
		k.close()
		return
	}
	k.burst()
}

func (k *asker) closed() { k.session.ended(k) }

// An answerer is the server of a connection: it answers the requests.
type answerer struct {
	*end
	owed    []*message // requests without an answer
	waiting bool       // the answers wait for a timer
	memory  []byte
}

func (r *answerer) opened() {
	if r.peer.peer != nil {
		r.expect(false, "second OnOpen for one request")
	}
	r.peer.peer = r.end
	switch {
	case r.a.closes(2):
		r.close()
	case r.a.chance(32) && r.a.limits:
		r.limit()
	}
}

func (r *answerer) received(got reactor.Message, sent *message) {
	r.checkWritten(sent)
	r.keep(got)
	r.owed = append(r.owed, sent)
	switch {
	case r.a.closes(1):
		r.close()
		return
	case !r.waiting && r.a.chance(16):
		r.waiting = true
		r.conn.Loop().After(r.a.upTo(r.a.pause), func() { r.waiting = false; r.answer() })
	}
	r.answer()
}

// checkWritten checks what the client has written before it has sent a message. It may
// write something else only after the answer.
func (r *answerer) checkWritten(sent *message) {
	if s := sent.written; s.number > 0 {
		r.expect(bytes.Equal(r.memory[s.offset():][:s.length], pattern[s.at:][:s.length]), "the WRITE of %d bytes before the message has other bytes", s.length)
	}
}

// answer sends the answers that are owed.
func (r *answerer) answer() {
	for len(r.owed) > 0 && r.state == endOpen && !r.waiting && !r.blocked {
		r.checkWritten(r.owed[0])
		if !r.send(r.a.length(), slot{}) {
			return
		}
		r.owed = r.owed[1:]
	}
}

func (r *answerer) writable() { r.answer() }
func (r *answerer) closed()   {}

// keep keeps some messages for a while, and checks then that nobody has changed them.
func (e *end) keep(m reactor.Message) {
	if !e.a.chance(16) {
		return
	}
	want := bytes.Clone(m.Data())
	b := m.Keep()
	if b == nil {
		e.expect(e.a.noDescriptors || m.IsWriteImm(), "Keep returns nil")
		return
	}
	e.conn.Loop().After(e.a.upTo(e.a.pause), func() {
		e.expect(bytes.Equal(b.Bytes(), want), "a message that was kept has changed")
		e.expect(b.Release() == nil, "Release of a message that was kept")
	})
}

// privateData tells the client the addresses and keys of its memory.
func (r *answerer) privateData(c *reactor.Conn) ([]byte, error) {
	area, memory := r.in.newArea()
	r.memory = memory
	target, err := r.in.region.Remote(c.Info().Device, area, areaSize)
	if err != nil {
		return nil, err
	}
	source, err := r.in.pattern.Remote(c.Info().Device, 0, len(pattern))
	if err != nil {
		return nil, err
	}
	private, _ := target.AppendBinary(nil)
	return source.AppendBinary(private)
}

// request returns the private data of a request: the number of the connection.
func request(number int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(number)) }

// A session is the wish of a node for a connection to a server.
type session struct {
	node   *node
	server *node
	in     *instance
	fresh  bool // a request that was sent after the last fault was answered
}

// dial makes a connection.
func (s *session) dial() {
	a, in := s.node.a, s.in
	if in.stopped || a.stopping {
		return
	}
	e := &end{a: a, in: in, name: s.node.name + " > " + s.server.name}
	k := &asker{end: e, session: s}
	e.user = k
	a.dialed = append(a.dialed, e)
	o := &reactor.DialOptions{Handler: e, PrivateData: request(len(a.dialed) - 1)}
	if a.chance(2) {
		o.Loop = in.engine.Loop(a.rng.IntN(in.engine.NumLoops()))
	}
	if dialed := a.w.Now(); a.chance(2) {
		o.PrivateDataFor = func(*reactor.Conn) ([]byte, error) {
			in.isPrompt("PrivateDataFor", dialed)
			return o.PrivateData, nil
		}
	}
	if err := in.engine.Dial(s.server.addr(), o); err != nil {
		a.failf("%s: dial: %v", e.name, err)
	}
}

// ended dials again after a pause.
func (s *session) ended(k *asker) {
	if s.in == k.in {
		s.in.after(s.node.a.upTo(s.node.a.pause), s.dial)
	}
}

// answered is called when a request was answered.
func (s *session) answered(request *message) {
	if a := s.node.a; a.calm > 0 && request.time >= a.calm {
		s.fresh = true
	}
}

// after calls fn on a loop of the instance, after a pause.
func (in *instance) after(d time.Duration, fn func()) {
	l := in.engine.Loop(in.node.a.rng.IntN(in.engine.NumLoops()))
	posted := in.node.a.w.Now()
	// After an error the loop has ended.
	_ = l.Post(func() {
		in.isPrompt("a posted function", posted)
		l.After(d, fn)
	})
}

// isPrompt checks that a loop of the instance has noticed early what has happened at a time.
func (in *instance) isPrompt(what string, since time.Duration) {
	a := in.node.a
	if late := a.w.Now() - since; late > promptLimit && in.node.paused <= since {
		a.failf("%s: %s was called %v late", in.node.name, what, late)
	}
}

// promptLimit is how long a loop may take to do what is due. Its turns take no time.
const promptLimit = time.Millisecond

// newArea returns the next area of the region of the instance.
func (in *instance) newArea() (offset int, memory []byte) {
	// Areas are not used again, because a peer that has mapped the region may write to it
	// after the end of its connection.
	offset = in.areas * areaSize
	in.areas++
	if in.areas > areaCount {
		panic("no more areas")
	}
	return offset, in.region.Bytes()[offset:][:areaSize]
}

const regionAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
