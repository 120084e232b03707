//go:build linux

package soft

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
	d := openDevice(t, &Config{Vectors: 2})
	keep := newEnd(t, d, 0, verbs.ProgressManual)
	collected := make(chan struct{})
	func() {
		a, b := newPair(t, d, verbs.ProgressManual)
		q, err := a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: keep.cq, RecvCQ: keep.cq, Caps: verbs.QPCaps{MaxSendWR: 8}})
		require.NoError(t, err)
		require.NoError(t, q.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
		_, err = q.PostSend([]verbs.SendWR{{ID: 1}, {ID: 2}})
		require.NoError(t, err)
		keep.wait(2)
		require.NoError(t, q.Close())
		runtime.AddCleanup(q.(*qp), func(done chan struct{}) { close(done) }, collected)
		_ = b
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
		v.Field(i).SetUint(uint64(i + 1))
	}
	copyWC(&to, &from)
	require.Equal(t, from, to)
}

// A poll first returns completions from the ring. New completions that do not fit the
// caller's slice stay in the ring.
func TestPollKeepsTheOrder(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	const messages = 7
	for i := range uint64(messages) {
		b.recv(i, 0, 8)
	}
	for i := range uint64(messages) {
		a.post(verbs.SendWR{ID: i, Opcode: verbs.OpSend})
	}
	next := uint64(0)
	for _, room := range []int{1, 0, 2, 3, 4} {
		dst := make([]verbs.WC, room)
		n, err := b.cq.Poll(dst)
		require.NoError(t, err)
		require.Equal(t, min(room, messages-int(next)), n)
		for _, wc := range dst[:n] {
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

// addFlushed adds n completions with StatusWRFlushErr to the CQ. They belong to a new
// queue pair, which addFlushed returns.
func (e *end) addFlushed(n int) verbs.QP {
	q, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Caps: verbs.QPCaps{MaxSendWR: n}})
	require.NoError(e.t, err)
	require.NoError(e.t, q.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	_, err = q.PostSend(make([]verbs.SendWR, n))
	require.NoError(e.t, err)
	return q
}

// Poll skips the completions of a destroyed queue pair. It returns older and newer
// completions of other queue pairs.
func TestPollSkipsDestroyedQueuePairs(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a := newEnd(t, d, 0, verbs.ProgressManual)
	before := a.addFlushed(2)
	destroyed := a.addFlushed(64)
	after := a.addFlushed(3)
	require.NoError(t, destroyed.Close())
	var wcs [4]verbs.WC
	n, err := a.cq.Poll(wcs[:])
	require.NoError(t, err)
	require.Equal(t, len(wcs), n)
	for i, q := range []verbs.QP{before, before, after, after} {
		require.Equal(t, q.Num(), wcs[i].QPN)
	}
	a.wait(1)
	require.NoError(t, before.Close())
	require.NoError(t, after.Close())
}

// Some polls call shard.drive() even if the CQ always has completions. Otherwise arrived
// messages could wait forever.
func TestPollDrivesWithFullRing(t *testing.T) {
	d := openDevice(t, &Config{Vectors: 2})
	a, b := newPair(t, d, verbs.ProgressManual)
	q := a.addFlushed(256)
	a.recv(1, 0, 8)
	b.post(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	confirmed := 0
	for polls := 0; confirmed == 0; polls++ {
		require.Less(t, polls, 100, "the other end waits until the CQ is empty")
		a.wait(1)
		n, err := b.cq.Poll(b.wc)
		require.NoError(t, err)
		confirmed += n
	}
	require.NoError(t, q.Close())
}
