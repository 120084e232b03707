package cq_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var errDevice = errors.New("the device refused")

func TestGroupCloseNeedsItsQueuesClosed(t *testing.T) {
	g, dev := newGroup(t, nil, nil)
	q, _ := newQueue(t, g, 1)
	require.Positive(t, g.FD())

	require.ErrorIs(t, g.Close(), verbs.ErrBusy)
	requireIdle(t, g)

	require.NoError(t, q.Close())
	require.NoError(t, g.Close())
	require.NoError(t, g.Close(), "a second Close does nothing")
	require.Zero(t, dev.Open())
}

func TestGroupAfterClose(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	require.NoError(t, g.Close())

	require.Equal(t, -1, g.FD())
	_, err := g.NewQueue(1)
	require.ErrorIs(t, err, verbs.ErrClosed)
	_, err = g.Consume()
	require.ErrorIs(t, err, verbs.ErrClosed)
	busy, err := g.Arm()
	require.ErrorIs(t, err, verbs.ErrClosed)
	require.True(t, busy, "a closed group never permits a sleep")
}

func TestGroupReturnsDeviceErrors(t *testing.T) {
	dev := faultcq.New(&faultcq.Script{})
	dev.FailNext(errDevice)
	_, err := cq.NewGroup(dev, nil)
	requireDeviceError(t, err, "create completion channel")

	g, err := cq.NewGroup(dev, nil)
	require.NoError(t, err)
	dev.FailNext(errDevice)
	_, err = g.NewQueue(1)
	requireDeviceError(t, err, "create CQ")
	require.NoError(t, g.Close(), "the failed queue does not count as open")
	require.Zero(t, dev.Open())
}

func TestGroupChecksTheDepth(t *testing.T) {
	g, _ := newGroup(t, &faultcq.Script{MaxCQE: 8}, nil)
	_, err := g.NewQueue(0)
	requireParam(t, err, "depth", 0, 8)
	_, err = g.NewQueue(9)
	requireParam(t, err, "depth", 9, 8)
	newQueue(t, g, 8)
}

func requireDeviceError(t *testing.T, err error, op string) {
	t.Helper()
	require.ErrorIs(t, err, errDevice)
	var opErr *verbs.OpError
	require.ErrorAs(t, err, &opErr)
	require.Equal(t, op, opErr.Op)
}
