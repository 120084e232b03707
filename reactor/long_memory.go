package reactor

import (
	"container/list"
	"net/netip"
	"os"
)

// A longMemory counts the bytes of the buffers in which a connection receives long
// messages. A buffer counts from its first READ until it is released.
type longMemory struct {
	used  int           // number of bytes in use, at most Config.Memory.LongConnBytes
	want  int           // number of bytes for which the connection waits; 0 if it does not wait
	peer  *longPeer     // the peer of the connection; nil before the first buffer
	place *list.Element // element of longPeer.waiting; nil if the connection does not wait there
	// true while it is this connection's turn, so it need not wait
	granted bool
}

// A longPeer is a process of this host, or another host, that sends long messages on
// connections of the loop. A peer that does not answer occupies memory until the READs
// fail. So the peers share the memory, whatever the number of their connections: there is
// a limit for each, and when memory becomes free, they have turns.
type longPeer struct {
	key     longPeerKey
	conns   int           // number of connections that refer to it
	used    int           // sum of longMemory.used of these connections
	waiting list.List     // each *Conn that waits for memory of the loop, oldest first
	turn    *list.Element // element of longRow.turns; nil if no connection waits
}

// A longPeerKey identifies a peer. On this host that is a process of root or of the user
// of this process, or all processes of another user, who could share the work among
// them. A process in another PID namespace has no number here, so each of its connections
// is a peer. Else the peer is a host; a host of IPv6 has a network of 64 bits (RFC 4291,
// 2.5.4), and may use all addresses.
type longPeerKey struct {
	local bool
	uid   uint32
	pid   int32
	conn  *Conn
	host  netip.Prefix
}

func longPeerOf(c *Conn) longPeerKey {
	who := c.info.credentials
	if who == nil {
		host := c.info.remote.Addr().Unmap()
		network, _ := host.Prefix(min(64, host.BitLen())) // The length is valid for the address.
		return longPeerKey{host: network}
	}
	key := longPeerKey{local: true, uid: who.UID}
	switch {
	case who.UID != 0 && int(who.UID) != os.Geteuid():
	case who.PID == 0:
		key.conn = c
	default:
		key.pid = who.PID
	}
	return key
}

// A longRow has the connections of a loop that wait for memory for long messages.
type longRow struct {
	peers map[longPeerKey]*longPeer
	turns list.List // each *longPeer with waiting connections, in the order of their turns
}

// join returns the peer of a connection, which then has one connection more.
func (r *longRow) join(c *Conn) *longPeer {
	key := longPeerOf(c)
	p := r.peers[key]
	if p == nil {
		if r.peers == nil {
			r.peers = make(map[longPeerKey]*longPeer)
		}
		p = &longPeer{key: key}
		r.peers[key] = p
	}
	p.conns++
	return p
}

// leave is called when a connection of the peer has ended. The application may still have
// buffers of the connection.
func (r *longRow) leave(p *longPeer) {
	p.conns--
	r.forgetUnused(p)
}

func (r *longRow) forgetUnused(p *longPeer) {
	if p.conns == 0 && p.used == 0 {
		delete(r.peers, p.key)
	}
}

func (r *longRow) push(c *Conn) {
	m := &c.long.memory
	m.place = m.peer.waiting.PushBack(c)
	if m.peer.turn == nil {
		m.peer.turn = r.turns.PushBack(m.peer)
	}
}

// next returns the connection whose turn it is, or nil. A peer whose connection would
// exceed perPeer bytes has no turn. It uses memory, so next skips few peers.
func (r *longRow) next(perPeer int) *Conn {
	for e := r.turns.Front(); e != nil; e = e.Next() {
		p := e.Value.(*longPeer)
		if c := p.waiting.Front().Value.(*Conn); p.used+c.long.memory.want <= perPeer {
			return c
		}
	}
	return nil
}

// remove removes a connection that does not wait any more, if it is in the row.
func (r *longRow) remove(c *Conn) {
	m := &c.long.memory
	if m.place == nil {
		return
	}
	p := m.peer
	p.waiting.Remove(m.place)
	m.place = nil
	if p.waiting.Len() == 0 {
		r.turns.Remove(p.turn)
		p.turn = nil
	}
}

// released gives all other peers their turns before a peer that has released memory.
func (r *longRow) released(p *longPeer) {
	if p.turn != nil {
		r.turns.MoveToBack(p.turn)
	}
	r.forgetUnused(p)
}

// buffer returns a buffer for n bytes of a long message of the peer, in state
// bufferLeased. The result is nil in two cases. If Config.Memory.LongConnBytes or
// Config.Memory.LongLoopBytes does not allow the buffer now, the release of another buffer calls
// longState.read. If the system has no memory, the connection ends.
func (s *longState) buffer(n int) *Buffer {
	c, l := s.conn, s.conn.loop
	size := c.device.pool.SizeFor(n)
	if s.memory.used+size > l.cfg.Memory.LongConnBytes {
		s.memory.want = size
		return nil
	}
	if s.memory.peer == nil {
		s.memory.peer = l.longRow.join(c)
	}
	if !s.hasTurn(size) {
		s.memory.want = size
		if s.memory.place == nil {
			l.longRow.push(c)
		}
		return nil
	}
	b := s.shown.take(size)
	if b == nil {
		var err error
		if b, err = c.device.leaseSize(n); err != nil {
			c.endWith(asNoResources(err))
			return nil
		}
	}
	s.memory.want = 0
	s.memory.used += size
	s.memory.peer.used += size
	l.longUsed += size
	b.length, b.charged, b.detached = n, s, true
	return b
}

// hasTurn reports whether the connection may take a buffer of the given size from the
// memory of the loop now.
func (s *longState) hasTurn(size int) bool {
	l := s.conn.loop
	return l.longUsed+size <= l.cfg.Memory.LongLoopBytes && s.memory.peer.used+size <= l.cfg.longPeerBytes() &&
		(s.memory.granted || l.longRow.next(l.cfg.longPeerBytes()) == nil)
}

// recycleLong is recycle for a buffer that has or had a long message.
func (b *Buffer) recycleLong() {
	size, charged, shownTo := len(b.memory), b.charged, b.shownTo
	b.charged = nil
	if shownTo != nil {
		shownTo.shown.put(b)
	} else {
		b.free()
	}
	if charged != nil {
		charged.release(size)
	}
}

// release subtracts the size of a released buffer from the memory in use, and lets
// connections that wait for memory continue.
func (s *longState) release(size int) {
	l := s.conn.loop
	s.memory.used -= size
	s.memory.peer.used -= size
	l.longUsed -= size
	l.longRow.released(s.memory.peer)
	if s.memory.want > 0 && s.memory.place == nil {
		s.read()
	}
	l.serveLongRow()
}

// serveLongRow lets connections that wait for memory of the loop continue; see longRow.
func (l *Loop) serveLongRow() {
	row, perPeer := &l.longRow, l.cfg.longPeerBytes()
	for c := row.next(perPeer); c != nil; c = row.next(perPeer) {
		m := &c.long.memory
		if c.state <= stateDraining && l.longUsed+m.want > l.cfg.Memory.LongLoopBytes {
			return
		}
		row.remove(c)
		m.granted = true
		c.long.read()
		m.granted = false
	}
}

// A shownBuffers has free buffers whose remote keys were sent to the peer of one
// connection. Only this connection uses them again, because the peer can read them.
type shownBuffers struct {
	list  []*Buffer
	bytes int  // total size of the buffers in bytes
	used  bool // true if a buffer was taken or added since the last call of trim
}

// take removes and returns a buffer of the given size, in state bufferLeased, or returns
// nil.
func (s *shownBuffers) take(size int) *Buffer {
	for i, b := range s.list {
		if len(b.memory) == size {
			last := len(s.list) - 1
			s.list[i], s.list[last] = s.list[last], nil
			s.list = s.list[:last]
			s.bytes -= size
			s.used = true
			b.state = bufferLeased
			return b
		}
	}
	return nil
}

// put adds a buffer. If the buffers would then exceed Config.Memory.LongConnBytes, or the
// connection has ended, put releases the memory of the buffer instead, and the remote key
// becomes invalid.
func (s *shownBuffers) put(b *Buffer) {
	c := b.shownTo.conn
	b.state, b.detached = bufferFree, false
	s.used = true
	if c.state > stateDraining || s.bytes+len(b.memory) > c.loop.cfg.Memory.LongConnBytes {
		b.drop()
		return
	}
	s.list = append(s.list, b)
	s.bytes += len(b.memory)
}

// drop releases the memory of a buffer. If the device can not do that, the buffer is not
// used again.
func (b *Buffer) drop() {
	c := b.shownTo.conn
	b.shownTo = nil
	c.loop.recordError(c.device.pool.Drop(b.slot))
}

// trim releases all buffers if no buffer was taken or added since the last call of trim.
func (s *shownBuffers) trim() {
	if !s.used {
		s.clear()
	}
	s.used = false
}

// clear releases all buffers.
func (s *shownBuffers) clear() {
	for i, b := range s.list {
		s.list[i] = nil
		b.drop()
	}
	s.list, s.bytes = s.list[:0], 0
}
