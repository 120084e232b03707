package reactor

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/limitlog"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/reactor/internal/slab"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newTestDevice makes a loopDevice that has buffers of the given size.
func newTestDevice(l *Loop, pd verbs.PD, size int) *loopDevice {
	d := &loopDevice{loop: l}
	d.pool.Init(slab.Config[Buffer]{PD: pd, Size: size, Limit: 1 << bufferBits, Attach: new(Loop).attachBuffer, Detach: detachBuffer})
	return d
}

// TestKeepWithoutMemory checks that the receive queue lacks a kept buffer until the
// release if there is no memory for another one.
func TestKeepWithoutMemory(t *testing.T) {
	var log bytes.Buffer
	pd := &memorytest.PD{}
	l := &Loop{engine: &Engine{log: limitlog.New(slog.New(slog.NewTextHandler(&log, nil)))}}
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
	require.Contains(t, log.String(), "no memory")
	l.currentMessage = nil
	require.Nil(t, m.Keep(), "Keep returns nil after OnMessage has returned")
	require.EqualValues(t, 64-1, c.recvs.own.head-c.recvs.own.tail)
	require.NoError(t, b.Release())
	require.EqualValues(t, 64, c.recvs.own.head-c.recvs.own.tail)
	require.Equal(t, bufferPosted, b.state)
}
