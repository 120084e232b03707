package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// sharedRecvBatch is how many staged buffers the method stage posts at once. Arbitrary.
const sharedRecvBatch = 64

// A sharedRecv is the shared receive queue of a loopDevice. Its buffers complete in any
// order. A work request's id is the index of its buffer in slab.all.
//
// The queue is open while connections use it. It grows for each connection that needs
// more buffers. If it has too many buffers, a buffer goes back to the slab when its
// message was handled. Buffers that are posted can not be taken back. So a queue that no
// connection uses is closed: see closeUnused.
type sharedRecv struct {
	device *loopDevice
	sizes  sharedRecvSizes

	srq   verbs.SRQ      // nil while the queue is closed
	conns qpTable        // connections by the number of their queue pair
	wrs   []verbs.RecvWR // receive requests of the staged buffers
	// size is the number of buffers in the queue. It includes buffers whose message is
	// being handled, and buffers that were not replaced: see Conn.replace.
	size int
	need int // number of buffers that the connections in conns need
}

// newSharedRecv returns the shared receive queue of a device, still closed. It returns
// nil if each connection has a receive queue of its own.
func newSharedRecv(d *loopDevice) *sharedRecv {
	sizes := d.loop.cfg.sharedRecvSizes(d.dev)
	if sizes.base == 0 {
		return nil
	}
	return &sharedRecv{device: d, sizes: sizes}
}

// needFor returns the number of buffers that the given number of connections needs.
func (s *sharedRecv) needFor(conns int) int {
	return s.sizes.need(conns, s.device.loop.cfg.MinRecvBuffers)
}

// prepare opens the queue if it is closed, and adds the buffers that one more connection
// needs. The error matches verbs.ErrNoResources.
func (s *sharedRecv) prepare() error {
	want := s.needFor(s.conns.count + 1)
	if want > s.sizes.limit {
		return asNoResources(&verbs.ParamError{Field: "shared receive buffers", Value: int64(want), Limit: int64(s.sizes.limit)})
	}
	if err := s.open(); err != nil {
		return asNoResources(err)
	}
	if err := s.grow(want - s.size); err != nil {
		return asNoResources(err)
	}
	return nil
}

// open opens the queue, without buffers, if it is closed.
func (s *sharedRecv) open() error {
	if s.srq != nil {
		return nil
	}
	d := s.device
	srq, err := d.domain.pd.CreateSRQ(&verbs.SRQAttr{
		MaxWR: s.sizes.limit, MaxSGE: 1, CQ: d.queues[0].cq(), BuffersPerQP: d.loop.cfg.MinRecvBuffers,
	})
	if err == nil {
		s.srq = srq
	}
	return err
}

// grow adds n buffers. It does nothing if n is not positive. Every CQ gets places for
// all the completions, because the connections of one CQ may use all buffers.
func (s *sharedRecv) grow(n int) error {
	if n <= 0 {
		return nil
	}
	d := s.device
	if err := d.reserveShared(n); err != nil {
		return err
	}
	for ; n > 0; n-- {
		b, err := d.slab.get()
		if err != nil {
			d.releaseShared(n)
			return err
		}
		s.size++
		if err := s.stage(b); err != nil {
			d.releaseShared(n - 1)
			return err
		}
	}
	return s.post()
}

// add adds a connection with the queue pair number qpn. The call of prepare for this
// connection must have succeeded.
func (s *sharedRecv) add(qpn uint32, c *Conn) {
	s.conns.put(qpn, c)
	s.need = s.needFor(s.conns.count)
}

// remove removes the connection c, if it was added, after its queue pair was closed.
func (s *sharedRecv) remove(qpn uint32, c *Conn) {
	if s.conns.get(qpn) != c {
		return
	}
	s.conns.remove(qpn)
	s.need = s.needFor(s.conns.count)
	if s.conns.count == 0 {
		for _, q := range s.device.queues {
			q.emptyPollsAtUnused = q.emptyPolls
		}
	}
}

// stage adds a buffer, and posts the staged buffers if there are sharedRecvBatch of them.
func (s *sharedRecv) stage(b *Buffer) error {
	b.state = bufferPosted
	s.wrs = append(s.wrs, verbs.RecvWR{ID: uint64(b.index), SGEs: b.sge[:]})
	if len(s.wrs) < sharedRecvBatch {
		return nil
	}
	return s.post()
}

// restage puts a buffer back into the queue after its message was handled. If the queue
// has more buffers than it needs, the buffer goes to the slab instead.
func (s *sharedRecv) restage(b *Buffer) error {
	if s.size <= s.need {
		return s.stage(b)
	}
	s.size--
	s.device.releaseShared(1)
	s.device.slab.put(b)
	return nil
}

// post posts the staged buffers. After an error, buffers that were not posted stay
// staged.
func (s *sharedRecv) post() error {
	if len(s.wrs) == 0 {
		return nil
	}
	s.device.loop.stats.RecvDoorbells++
	n, err := s.srq.PostRecv(s.wrs)
	s.wrs = s.wrs[:copy(s.wrs, s.wrs[n:])]
	return err
}

// closeUnused closes the queue if no connection uses it and all completions of its
// buffers were polled. It returns the buffers to the slab.
func (s *sharedRecv) closeUnused() error {
	if s.srq == nil || s.conns.count > 0 {
		return nil
	}
	d := s.device
	for _, q := range d.queues {
		if q.emptyPolls == q.emptyPollsAtUnused {
			return nil
		}
	}
	if err := s.srq.Close(); err != nil {
		return err
	}
	for _, b := range d.slab.all {
		if b == nil {
			continue
		}
		b.refillFor = nil
		if b.state == bufferPosted {
			d.slab.put(b)
		}
	}
	d.releaseShared(s.size)
	s.srq, s.wrs, s.size, s.need = nil, nil, 0, 0
	return nil
}

// close closes the queue when its loopDevice is closed.
func (s *sharedRecv) close() error {
	if s.srq == nil {
		return nil
	}
	return s.srq.Close()
}
