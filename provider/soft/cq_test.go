//go:build linux

package soft

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A CQ that lives on does not keep the queue pairs that were closed.
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
