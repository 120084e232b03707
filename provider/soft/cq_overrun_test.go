//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// overrunPair returns an end whose CQ has depth 4. The connected peer has 64 receive
// buffers.
func overrunPair(t *testing.T, progress verbs.Progress) (d *device, a *qptest.End) {
	d = openDevice(t, &Config{})
	a = qptest.NewEndOn(t, d, &verbs.CQAttr{Depth: 4, Progress: progress})
	b := qptest.NewEnd(t, d, 1, verbs.ProgressAuto)
	a.Connect(b, nil)
	b.Connect(a, nil)
	for i := range uint64(64) {
		b.Recv(i, 0, 8)
	}
	return d, a
}

// A CQ and its queue pair fail when the CQ gets more completions than its depth.
func TestCQOverrun(t *testing.T) {
	for name, progress := range map[string]verbs.Progress{"manual": verbs.ProgressManual, "automatic": verbs.ProgressAuto} {
		t.Run(name, func(t *testing.T) {
			d, a := overrunPair(t, progress)
			for i := range uint64(64) {
				a.Post(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			}
			var err error
			for range qptest.PollLimit {
				// With an empty slice, Poll takes nothing from the CQ.
				if _, err = a.CQ.Poll(nil); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, verbs.ErrOverrun)
			require.Equal(t, verbs.StateError, a.QP.State())
			require.Equal(t, []verbs.AsyncEvent{{Type: verbs.AsyncCQError, CQ: a.CQ}, {Type: verbs.AsyncQPFatal, QP: a.QP}}, asyncEvents(t, d))
			require.ErrorIs(t, a.CQ.Arm(false), verbs.ErrOverrun)
			_, err = a.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: a.CQ, RecvCQ: a.CQ})
			require.ErrorIs(t, err, verbs.ErrOverrun)
		})
	}
}

// When a CQ overruns, the next call of shard.drive() moves its queue pairs to the error
// state, even without a poll.
func TestCQOverrunUnnoticed(t *testing.T) {
	d, a := overrunPair(t, verbs.ProgressManual)
	other := qptest.NewEnd(t, d, 0, verbs.ProgressManual)
	for i := range uint64(64) {
		a.Post(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	}
	for range qptest.PollLimit {
		_, err := other.CQ.Poll(nil)
		require.NoError(t, err)
		if a.QP.State() == verbs.StateError {
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
				a.Post(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			}
			for got, limit := 0, 0; got < 4; limit++ {
				n, err := a.CQ.Poll(a.WC[:batch])
				require.NoError(t, err, "round %d", round)
				got += n
				require.Less(t, limit, qptest.PollLimit)
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
