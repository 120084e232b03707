//go:build linux

package qp

import (
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A closed queue pair can be garbage collected while its CQ is open.
func TestClosedQueuePairsAreCollected(t *testing.T) {
	const safety = 30 * time.Second
	keep := newFakeEnd(t, newFakeHost(t, 1), nil)
	collected := make(chan struct{})
	func() {
		q := keep.flushed(2)
		require.Len(t, keep.poll(2), 2)
		require.NoError(t, q.Close())
		runtime.AddCleanup(q, func(done chan struct{}) { close(done) }, collected)
	}()
	for limit := time.Now().Add(safety); time.Now().Before(limit); runtime.Gosched() {
		runtime.GC()
		select {
		case <-collected:
			return
		default:
		}
	}
	require.FailNow(t, "the queue pair is still reachable")
}

// copyWC copies every field of verbs.WC.
func TestCopyWCIsWhole(t *testing.T) {
	var from, to verbs.WC
	v := reflect.ValueOf(&from).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.CanInt() {
			f.SetInt(int64(i + 1))
		} else {
			f.SetUint(uint64(i + 1))
		}
	}
	copyWC(&to, &from)
	require.Equal(t, from, to)
}

// A poll first returns completions from the ring. New completions that do not fit the
// caller's slice stay in the ring.
func TestPollKeepsTheOrder(t *testing.T) {
	e := newFakeEnd(t, newFakeHost(t, 1), nil)
	p := e.connect()
	const messages = 7
	for i := range uint64(messages) {
		e.recv(i, 8)
		p.arrive(whole, 0)
	}
	next := uint64(0)
	for _, room := range []int{1, 0, 2, 3, 4} {
		got := e.poll(room)
		require.Len(t, got, min(room, messages-int(next)))
		for _, wc := range got {
			require.Equal(t, next, wc.ID)
			next++
		}
	}
	require.EqualValues(t, messages, next)
}

// A CQ's ring begins small and grows to the CQ's depth. The completions keep their
// order.
func TestCQGrowsToItsDepth(t *testing.T) {
	const depth = 3*initialCQEs + 1
	c := &cq{depth: depth}
	c.resize(initialCQEs)
	pushed, polled, from := uint64(0), uint64(0), cqSpace{}
	push := func(n int) {
		for range n {
			from.held++
			c.push(&verbs.WC{ID: pushed}, &from, false)
			pushed++
		}
	}
	push(initialCQEs - 1)
	var wcs [depth]verbs.WC
	// The first completions wrap around the end of the ring. The next ones make the full
	// ring grow.
	for _, room := range []int{5, depth} {
		for _, wc := range wcs[:c.drain(wcs[:room])] {
			require.Equal(t, polled, wc.ID)
			polled++
		}
		push(depth - int(from.held))
	}
	require.False(t, c.overrun)
	require.Equal(t, depth, c.drain(wcs[:]))
	require.Equal(t, polled, wcs[0].ID)
	require.Equal(t, pushed-1, wcs[depth-1].ID)
	require.Zero(t, from.held)
}

// Poll skips the completions of a destroyed queue pair. It returns older and newer
// completions of other queue pairs.
func TestPollSkipsDestroyedQueuePairs(t *testing.T) {
	a := newFakeEnd(t, newFakeHost(t, 1), nil)
	before := a.flushed(2)
	destroyed := a.flushed(64)
	after := a.flushed(3)
	require.NoError(t, destroyed.Close())
	wcs := a.poll(4)
	require.Len(t, wcs, 4)
	for i, q := range []*QP{before, before, after, after} {
		require.Equal(t, q.Num(), wcs[i].QPN)
	}
	require.Len(t, a.poll(4), 1)
	require.NoError(t, before.Close())
	require.NoError(t, after.Close())
}

// Some polls call shard.drive() even if the CQ always has completions. Otherwise arrived
// messages could wait forever.
func TestPollDrivesWithFullRing(t *testing.T) {
	a := newFakeEnd(t, newFakeHost(t, 1), nil)
	p := a.connect()
	q := a.flushed(256)
	a.recv(1, 8)
	p.arrive(whole, 8)
	for polls := 0; !p.IsIdle(); polls++ {
		require.Less(t, polls, 100, "the message waits until the CQ is empty")
		require.Len(t, a.poll(1), 1)
	}
	require.NoError(t, q.Close())
}
