package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fakePD is a protection domain whose memory is on the Go heap.
type fakePD struct {
	verbs.PD
	refuse error // error that Alloc, Close, and Close of a region return
	open   int   // number of regions that are open
	closed bool
}

func (h *fakePD) Close() error {
	h.closed = h.refuse == nil
	return h.refuse
}

type fakeMR struct {
	verbs.MR
	pd     *fakePD
	memory []byte
}

func (h *fakePD) Alloc(attr *verbs.AllocAttr) (verbs.MR, error) {
	if h.refuse != nil {
		return nil, h.refuse
	}
	h.open++
	return &fakeMR{pd: h, memory: make([]byte, attr.Size)}, nil
}

func (h *fakePD) Register(b []byte, _ verbs.Access) (verbs.MR, error) {
	h.open++
	return &fakeMR{pd: h, memory: b}, nil
}

func (m *fakeMR) RKey() uint32  { return 8 }
func (m *fakeMR) Bytes() []byte { return m.memory }
func (m *fakeMR) Addr() uint64  { return 1 << 20 }
func (m *fakeMR) LKey() uint32  { return 7 }
func (m *fakeMR) Close() error {
	if m.pd.refuse == nil {
		m.pd.open--
	}
	return m.pd.refuse
}

func TestSlabGrowsAndReuses(t *testing.T) {
	pd := &fakePD{}
	s := slab{pd: pd, size: 100}
	var held []*Buffer
	for range 3 * minChunk {
		b, err := s.get()
		require.NoError(t, err)
		require.Equal(t, 100, b.Cap())
		require.Zero(t, b.sge[0].Addr%cacheLine, "no two buffers share a cache line")
		require.EqualValues(t, 100, b.sge[0].Length)
		held = append(held, b)
	}
	require.Equal(t, 3, pd.open, "chunks of 64, 64 and 128 buffers")
	for i, b := range held {
		b.memory[0], b.memory[99] = byte(i), byte(i)
	}
	for i, b := range held {
		require.Equal(t, []byte{byte(i), byte(i)}, []byte{b.memory[0], b.memory[99]}, "the buffers do not overlap")
		require.Same(t, b, s.all[b.index])
		require.NoError(t, b.Release())
		require.ErrorIs(t, b.Release(), verbs.ErrState)
	}
	for range len(held) {
		_, err := s.get()
		require.NoError(t, err)
	}
	require.Equal(t, 3, pd.open, "the released buffers are used again")
	require.NoError(t, s.close())
	require.Zero(t, pd.open)
	require.Zero(t, s.bytes())
}

// TestSlabBoundsTheBytesOfAChunk checks that a chunk has few buffers if they are large.
func TestSlabBoundsTheBytesOfAChunk(t *testing.T) {
	for size, first := range map[int]int{1 << 10: minChunk, 1 << 20: 16, chunkBytes: 1, chunkBytes + 1: 1} {
		s := slab{pd: &fakePD{}, size: size}
		_, err := s.get()
		require.NoError(t, err)
		require.Equal(t, first, s.count, "%d bytes", size)
	}
}

func TestSlabWithoutMemory(t *testing.T) {
	pd := &fakePD{refuse: errors.New("no memory")}
	s := slab{pd: pd, size: 100}
	_, err := s.get()
	require.ErrorIs(t, err, pd.refuse)
}

// TestKeepWithoutMemory checks that the receive queue lacks a kept buffer until the
// release if there is no memory for another one.
func TestKeepWithoutMemory(t *testing.T) {
	pd := &fakePD{}
	l := &Loop{}
	c := &Conn{loop: l, state: stateOpen, device: &loopDevice{loop: l, slab: slab{pd: pd, size: 10}}}
	c.recvs = newRecvQueue(minChunk, 0)
	for range minChunk {
		b, err := c.device.slab.get()
		require.NoError(t, err)
		c.recvs.stage(b)
	}
	c.recvs.posted = c.recvs.head // All buffers now count as posted.
	pd.refuse = errors.New("no memory")

	b := c.recvs.complete(0)
	b.state, l.currentMessage = bufferDelivered, b
	m := Message{conn: c, buffer: b}
	require.Same(t, b, m.Keep())
	require.Same(t, b, m.Keep())
	l.currentMessage = nil
	require.Nil(t, m.Keep(), "Keep returns nil after OnMessage has returned")
	require.EqualValues(t, minChunk-1, c.recvs.head-c.recvs.tail)
	require.NoError(t, b.Release())
	require.EqualValues(t, minChunk, c.recvs.head-c.recvs.tail)
	require.Equal(t, bufferPosted, b.state)
}

func TestRecvQueueTakesCompletionsInOrder(t *testing.T) {
	q := newRecvQueue(3, wrID(5)<<indexShift)
	buffers := make([]Buffer, 3)
	for i := range buffers {
		q.stage(&buffers[i])
	}
	require.Nil(t, q.complete(0), "the buffer is not posted yet")
	q.posted = q.head
	require.Nil(t, q.complete(1), "the slot does not have the oldest buffer")
	require.Nil(t, q.complete(9))
	require.Same(t, &buffers[0], q.complete(0))
	require.Same(t, &buffers[1], q.take())
	require.Same(t, &buffers[2], q.take())
	require.Nil(t, q.take())
	require.Zero(t, q.inFlight())
}
