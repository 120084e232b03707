package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// sharedRecvBatch is how many staged buffers the method stage posts at once. Arbitrary.
const sharedRecvBatch = 64

// A sharedRecv is the shared receive queue of a loopDevice. Its buffers complete in any
// order. A work request's id is the index of its buffer in the pool.
//
// The queue is open while connections use it. It grows for each connection that needs
// more buffers. If it has too many buffers, a buffer goes back to the pool when its
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
	return s.sizes.need(conns, s.device.loop.cfg.Memory.MinRecvBuffers)
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
	srq, err := d.pd().CreateSRQ(&verbs.SRQAttr{
		MaxWR: s.sizes.limit, MaxSGE: 1, CQ: d.queues[0].cq(), BuffersPerQP: d.loop.cfg.Memory.MinRecvBuffers,
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
		b, err := d.smallBuffer()
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
	s.wrs = append(s.wrs, verbs.RecvWR{ID: uint64(b.slot.Index), SGEs: b.sge[:]})
	if len(s.wrs) < sharedRecvBatch {
		return nil
	}
	return s.post()
}

// restage puts a buffer back into the queue after its message was handled. If the queue
// has more buffers than it needs, the buffer goes to the pool instead.
func (s *sharedRecv) restage(b *Buffer) error {
	if s.size <= s.need {
		return s.stage(b)
	}
	s.size--
	s.device.releaseShared(1)
	b.free()
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
// buffers were polled. It returns the buffers to the pool.
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
	for b := range d.pool.All() {
		b.refillFor = nil
		if b.state == bufferPosted {
			b.free()
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

// recvShared handles a completion of the shared receive queue. It finds the connection
// by the queue pair number.
func (d *loopDevice) recvShared(wc *verbs.WC) {
	t := d.pool.At(wrID(wc.ID).buffer())
	if t == nil || t.Buffer.state != bufferPosted {
		d.loop.stats.LateCompletions++
		return
	}
	b := &t.Buffer
	if c := d.sharedRecv.conns.get(wc.QPN); c != nil {
		c.recvCompleted(wc, b)
		return
	}
	d.loop.stats.LateCompletions++
	d.stageShared(b)
}

// stageShared puts a buffer back into the shared receive queue.
func (d *loopDevice) stageShared(b *Buffer) {
	if err := d.sharedRecv.restage(b); err != nil {
		d.fail(err)
	}
}

// A qpTable finds the connection of a queue pair number. It is a hash table with linear
// probing, in which a search usually reads one cache line. The zero qpTable is empty.
type qpTable struct {
	entries []qpEntry // places of the table; their number is 0 or a power of two
	shift   uint      // 32 minus the binary logarithm of len(entries)
	count   int       // number of connections; at most half of len(entries)
}

// A qpEntry is one place of a qpTable. It is empty if conn is nil.
type qpEntry struct {
	qpn  uint32
	conn *Conn
}

// minQPEntries is the smallest length of a qpTable that is not empty. Arbitrary.
const minQPEntries = 16

// home returns the index at which a search for qpn begins. The factor is 2^32 divided by
// the golden ratio. It spreads consecutive numbers over the table.
func (t *qpTable) home(qpn uint32) uint32 { return qpn * 0x9e3779b9 >> t.shift }

// find returns the index of the entry with qpn, or of the empty entry that ends the
// search. The table must have entries.
func (t *qpTable) find(qpn uint32) uint32 {
	mask := uint32(len(t.entries) - 1)
	i := t.home(qpn)
	for t.entries[i].conn != nil && t.entries[i].qpn != qpn {
		i = (i + 1) & mask
	}
	return i
}

// get returns the connection with the queue pair number qpn, or nil.
func (t *qpTable) get(qpn uint32) *Conn {
	if len(t.entries) == 0 {
		return nil
	}
	return t.entries[t.find(qpn)].conn
}

// put adds a connection. A connection with the same number is replaced.
func (t *qpTable) put(qpn uint32, c *Conn) {
	if 2*(t.count+1) > len(t.entries) {
		t.resize(max(minQPEntries, 2*len(t.entries)))
	}
	e := &t.entries[t.find(qpn)]
	if e.conn == nil {
		t.count++
	}
	e.qpn, e.conn = qpn, c
}

// remove removes the connection with the number qpn, if there is one. If the table is
// then almost empty, it becomes smaller.
func (t *qpTable) remove(qpn uint32) {
	if t.get(qpn) == nil {
		return
	}
	mask := uint32(len(t.entries) - 1)
	free := t.find(qpn)
	t.entries[free] = qpEntry{}
	t.count--
	// A search ends at an empty entry, and this entry is empty now. So a search might not
	// reach some later entries. The loop moves such an entry to the empty place.
	for i := (free + 1) & mask; t.entries[i].conn != nil; i = (i + 1) & mask {
		if (i-t.home(t.entries[i].qpn))&mask >= (i-free)&mask {
			t.entries[free], t.entries[i] = t.entries[i], qpEntry{}
			free = i
		}
	}
	if len(t.entries) > minQPEntries && 8*t.count < len(t.entries) {
		t.resize(len(t.entries) / 2)
	}
}

// resize changes the number of entries, a power of two.
func (t *qpTable) resize(size int) {
	old := t.entries
	t.entries, t.shift = make([]qpEntry, size), 32
	for n := size; n > 1; n /= 2 {
		t.shift--
	}
	for _, e := range old {
		if e.conn != nil {
			t.entries[t.find(e.qpn)] = e
		}
	}
}

// lastWQETimeout is how long a connection waits for verbs.AsyncQPLastWQE. Arbitrary.
const lastWQETimeout = time.Second

// A queue pair takes a buffer from the shared receive queue when a message begins to
// arrive. A device that moves data by itself may still have this buffer after the queue
// pair has entered the error state. If the queue pair were closed then, the buffer would
// never complete, and the shared receive queue would lack it. So the connection first
// waits for verbs.AsyncQPLastWQE, and then for an empty CQ. Source:
// ibv_get_async_event(3).

// A lastWQE says whether a queue pair has taken its last buffer from the shared receive
// queue.
type lastWQE struct {
	reached    bool   // true after verbs.AsyncQPLastWQE was received
	emptyPolls uint64 // value of completionQueue.emptyPolls when the event was received
}

// onLastWQE handles verbs.AsyncQPLastWQE for the queue pair of the connection.
func (c *Conn) onLastWQE() {
	if c.queue == nil {
		return
	}
	c.device.lastWQEReports = lastWQEReported
	c.closing.lastWQE = lastWQE{reached: true, emptyPolls: c.queue.emptyPolls}
	c.scheduleStep()
}

// onLastWQETimeout closes a connection that has waited too long for
// verbs.AsyncQPLastWQE. If the device has never reported this event, the next
// connections do not wait.
func (c *Conn) onLastWQETimeout() {
	if d := c.device; !c.closing.lastWQE.reached && d.lastWQEReports == lastWQEUnknown {
		d.lastWQEReports = lastWQENever
	}
	c.destroy()
}

// A lastWQEReports says whether a device reports verbs.AsyncQPLastWQE. The Soft-RoCE of
// Linux 6.1 is one of the devices that do not.
type lastWQEReports uint8

const (
	lastWQEUnknown  lastWQEReports = iota // no queue pair has ended on the device
	lastWQEReported                       // the device has reported verbs.AsyncQPLastWQE
	lastWQENever                          // lastWQETimeout has passed without such an event
)

// mayHoldSharedBuffer reports whether the queue pair may still have a buffer of the
// shared receive queue. The queue pair is in the error state. After
// verbs.AsyncQPLastWQE the result is true until a poll has left the CQ empty. To prepare
// this poll, mayHoldSharedBuffer calls loopDevice.consume and schedules a
// step.
func (c *Conn) mayHoldSharedBuffer() bool {
	d := c.device
	if !c.sharesRecv() || !d.awaitsLastWQE() || d.failure != nil {
		return false
	}
	if !c.closing.lastWQE.reached {
		return true
	}
	if c.queue.emptyPolls > c.closing.lastWQE.emptyPolls {
		return false
	}
	d.consume()
	c.scheduleStep()
	return true
}

// awaitsLastWQE reports whether connections of the device must wait for
// verbs.AsyncQPLastWQE. With manual progress this is not necessary: the device completes
// all buffers of a queue pair when the queue pair enters the error state.
func (d *loopDevice) awaitsLastWQE() bool {
	return d.sharedRecv != nil && d.lastWQEReports != lastWQENever && !d.dev.Caps().ProgressManual
}
