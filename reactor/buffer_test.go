package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/reactor/internal/slab"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newTestDevice makes a loopDevice that has buffers of the given size.
func newTestDevice(l *Loop, pd verbs.PD, size int) *loopDevice {
	d := &loopDevice{loop: l}
	d.pool.Init(slab.Config[Buffer]{PD: pd, Size: size, Limit: 1 << slotBits, Attach: attachBuffer, Detach: detachBuffer})
	return d
}

// TestKeepWithoutMemory checks that the receive queue lacks a kept buffer until the
// release if there is no memory for another one.
func TestKeepWithoutMemory(t *testing.T) {
	pd := &memorytest.PD{}
	l := &Loop{}
	c := &Conn{loop: l, state: stateOpen, device: newTestDevice(l, pd, 10)}
	c.recvs.own = newRecvQueue(64, 0)
	for range 64 {
		b, err := c.device.smallBuffer()
		require.NoError(t, err)
		c.recvs.own.stage(b)
	}
	c.recvs.own.posted = c.recvs.own.head // All buffers now count as posted.
	pd.Refuse = errors.New("no memory")

	b := c.recvs.own.complete(0)
	b.state, l.currentMessage = bufferDelivered, b
	m := Message{conn: c, buffer: b}
	require.Same(t, b, m.Keep())
	require.Same(t, b, m.Keep())
	l.currentMessage = nil
	require.Nil(t, m.Keep(), "Keep returns nil after OnMessage has returned")
	require.EqualValues(t, 64-1, c.recvs.own.head-c.recvs.own.tail)
	require.NoError(t, b.Release())
	require.EqualValues(t, 64, c.recvs.own.head-c.recvs.own.tail)
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
