package reactor

import "math/bits"

// A longMemory counts the bytes of the buffers in which a connection receives long
// messages. A buffer counts from its first READ until it is released.
type longMemory struct {
	used  int  // number of bytes in use, at most Config.LongConnBytes
	want  int  // number of bytes for which the connection waits; 0 if it does not wait
	inRow bool // true if the connection is in Loop.longRow
	next  bool // true if the connection was the first of Loop.longRow and may take memory now
}

// bufferSize returns the size of the buffer that has room for n bytes.
func (d *loopDevice) bufferSize(n int) int {
	if n <= d.slab.size {
		return d.slab.size
	}
	return 1 << bits.Len(uint(n-1))
}

// buffer returns a buffer for n bytes of a long message of the peer, in state
// bufferLeased. The result is nil in two cases. If Config.LongConnBytes or
// Config.LongLoopBytes does not allow the buffer now, the release of another buffer calls
// Conn.readLong. If the system has no memory, the connection ends.
func (s *longState) buffer(n int) *Buffer {
	c, l := s.conn, s.conn.loop
	size := c.device.bufferSize(n)
	if s.memory.used+size > l.cfg.LongConnBytes {
		s.memory.want = size
		return nil
	}
	if l.longUsed+size > l.cfg.LongLoopBytes || l.longRow.len() > 0 && !s.memory.next {
		s.memory.want = size
		if !s.memory.inRow {
			s.memory.inRow = true
			l.longRow.push(c)
		}
		return nil
	}
	b := s.shown.take(size)
	if b == nil {
		var err error
		if b, err = c.device.leaseSize(n); err != nil {
			c.beginClose(asNoResources(err))
			return nil
		}
	}
	s.memory.want = 0
	s.memory.used += size
	l.longUsed += size
	b.length, b.charged, b.detached = n, s, true
	return b
}

// recycleLong is recycle for a buffer that has or had a long message.
func (b *Buffer) recycleLong() {
	size, charged, shownTo := len(b.memory), b.charged, b.shownTo
	b.charged = nil
	if shownTo != nil {
		shownTo.shown.put(b)
	} else {
		b.chunk.slab.put(b)
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
	l.longUsed -= size
	if s.memory.want > 0 && !s.memory.inRow {
		s.conn.readLong()
	}
	l.serveLongRow()
}

// serveLongRow lets connections that wait for memory of the loop continue, in the order
// in which they began to wait.
func (l *Loop) serveLongRow() {
	for n := l.longRow.len(); n > 0 && l.longRow.len() > 0; n-- {
		first := l.longRow.conns[l.longRow.head]
		m := &first.long.memory
		if first.state <= stateDraining && l.longUsed+m.want > l.cfg.LongLoopBytes {
			return
		}
		l.longRow.pop()
		m.inRow, m.next = false, true
		first.readLong()
		m.next = false
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

// put adds a buffer. If the buffers would then exceed Config.LongConnBytes, or the
// connection has ended, put releases the memory of the buffer instead, and the remote key
// becomes invalid.
func (s *shownBuffers) put(b *Buffer) {
	c := b.shownTo.conn
	b.state, b.detached = bufferFree, false
	s.used = true
	if c.state > stateDraining || s.bytes+len(b.memory) > c.loop.cfg.LongConnBytes {
		b.drop()
		return
	}
	s.list = append(s.list, b)
	s.bytes += len(b.memory)
}

// drop releases the memory of a free buffer that is the only one of its chunk. If the
// device can not do that, the buffer is not used again.
func (b *Buffer) drop() {
	l := b.shownTo.conn.loop
	b.shownTo = nil
	if b.chunk.slab.at(b.index) == b { // the loop has not ended and released all memory
		l.recordError(b.chunk.slab.freeChunk(b.chunk))
	}
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
