//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// overrunPair returns an end whose CQ has depth 4. The connected peer has 64 receive
// buffers.
func overrunPair(t *testing.T, progress verbs.Progress) (d *device, a *end) {
	d = openDevice(t, &Config{Vectors: 2})
	a = newEndOn(t, d, &verbs.CQAttr{Depth: 4, Progress: progress})
	b := newEnd(t, d, 1, verbs.ProgressAuto)
	a.connect(b, nil)
	b.connect(a, nil)
	for i := range uint64(64) {
		b.recv(i, 0, 8)
	}
	return d, a
}

// A CQ and its queue pair fail when the CQ gets more completions than its depth.
func TestCQOverrun(t *testing.T) {
	for name, progress := range map[string]verbs.Progress{"manual": verbs.ProgressManual, "automatic": verbs.ProgressAuto} {
		t.Run(name, func(t *testing.T) {
			d, a := overrunPair(t, progress)
			for i := range uint64(64) {
				a.post(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			}
			var err error
			for range pollLimit {
				// With an empty slice, Poll takes nothing from the CQ.
				if _, err = a.cq.Poll(nil); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, verbs.ErrOverrun)
			require.Equal(t, verbs.StateError, a.qp.State())
			require.Equal(t, []verbs.AsyncEvent{{Type: verbs.AsyncCQError, CQ: a.cq}, {Type: verbs.AsyncQPFatal, QP: a.qp}}, asyncEvents(t, d))
			require.ErrorIs(t, a.cq.Arm(false), verbs.ErrOverrun)
			_, err = a.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: a.cq, RecvCQ: a.cq})
			require.ErrorIs(t, err, verbs.ErrOverrun)
		})
	}
}

// When a CQ overruns, the next call of shard.drive() moves its queue pairs to the error
// state, even without a poll.
func TestCQOverrunUnnoticed(t *testing.T) {
	d, a := overrunPair(t, verbs.ProgressManual)
	other := newEnd(t, d, 0, verbs.ProgressManual)
	for i := range uint64(64) {
		a.post(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	for range pollLimit {
		_, err := other.cq.Poll(nil)
		require.NoError(t, err)
		if a.qp.State() == verbs.StateError {
			return
		}
	}
	require.FailNow(t, "the queue pair is not in error")
}

// A full CQ does not overrun. The length of the slice passed to Poll does not matter.
func TestCQFull(t *testing.T) {
	for _, batch := range []int{1, 3, 4, 64} {
		d, a := overrunPair(t, verbs.ProgressManual)
		for round := range 8 {
			for i := range uint64(4) {
				a.post(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			}
			for got, limit := 0, 0; got < 4; limit++ {
				n, err := a.cq.Poll(a.wc[:batch])
				require.NoError(t, err, "round %d", round)
				got += n
				require.Less(t, limit, pollLimit)
			}
		}
		require.Empty(t, asyncEvents(t, d))
	}
}

func asyncEvents(t *testing.T, d *device) (events []verbs.AsyncEvent) {
	for {
		var ev verbs.AsyncEvent
		ok, err := d.NextAsync(&ev)
		require.NoError(t, err)
		if !ok {
			return events
		}
		events = append(events, ev)
	}
}
