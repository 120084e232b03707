package asyncq_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/asyncq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

type (
	qp  struct{ verbs.QP }
	cq  struct{ verbs.CQ }
	srq struct{ verbs.SRQ }
)

func drained(q *asyncq.Queue) (all []verbs.AsyncEvent) {
	for {
		ev, ok := q.Pop()
		if !ok {
			return all
		}
		all = append(all, ev)
	}
}

// TestNoTypeIsLost checks that many other events do not remove the event of a failed
// queue pair.
func TestNoTypeIsLost(t *testing.T) {
	var q asyncq.Queue
	dead, noisy := &qp{}, &srq{}
	q.Push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: dead})
	for range 100_000 {
		q.Push(verbs.AsyncEvent{Type: verbs.AsyncSRQLimit, SRQ: noisy})
		q.Push(verbs.AsyncEvent{Type: verbs.AsyncPortError, Port: 1})
		q.Push(verbs.AsyncEvent{Type: verbs.AsyncPortActive, Port: 1})
	}
	require.Equal(t, 4, q.Len(), "the bound is the number of objects and types")
	require.Equal(t, []verbs.AsyncEvent{
		{Type: verbs.AsyncQPFatal, QP: dead},
		{Type: verbs.AsyncSRQLimit, SRQ: noisy},
		{Type: verbs.AsyncPortError, Port: 1},
		{Type: verbs.AsyncPortActive, Port: 1},
	}, drained(&q), "the latest port event is last")
	require.Zero(t, q.Len())
}

func TestObjectsAndTypesAreSeparate(t *testing.T) {
	var q asyncq.Queue
	events := []verbs.AsyncEvent{
		{Type: verbs.AsyncQPFatal, QP: &qp{}},
		{Type: verbs.AsyncCQError, CQ: &cq{}},
		{Type: verbs.AsyncCQError, CQ: &cq{}},
		{Type: verbs.AsyncSRQError, SRQ: &srq{}},
		{Type: verbs.AsyncDeviceFatal},
		{Type: verbs.AsyncPortError, Port: 1},
		{Type: verbs.AsyncPortError, Port: 2},
		{Type: 200, Port: 2},
	}
	events = append(events, verbs.AsyncEvent{Type: verbs.AsyncQPLastWQE, QP: events[0].QP})
	for _, ev := range events {
		q.Push(ev)
	}
	require.Equal(t, events, drained(&q))
}

func TestForget(t *testing.T) {
	var q asyncq.Queue
	q.Push(verbs.AsyncEvent{Type: verbs.AsyncPortError, Port: 1})
	for range 1000 {
		gone := &qp{}
		q.Push(verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: gone})
		q.Push(verbs.AsyncEvent{Type: verbs.AsyncQPLastWQE, QP: gone})
		q.Forget(gone)
		q.Forget(gone)
	}
	require.Equal(t, []verbs.AsyncEvent{{Type: verbs.AsyncPortError, Port: 1}}, drained(&q))
}

// TestQueueAgainstAModel compares random calls with a simple implementation.
func TestQueueAgainstAModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	objects := []*qp{{}, {}, {}}
	var q asyncq.Queue
	var model []verbs.AsyncEvent
	for range 20_000 {
		switch rng.IntN(4) {
		default:
			ev := verbs.AsyncEvent{Type: verbs.AsyncEventType(rng.IntN(4)), QP: objects[rng.IntN(len(objects))]}
			model = append(slices.DeleteFunc(model, func(o verbs.AsyncEvent) bool { return o == ev }), ev)
			q.Push(ev)
		case 2:
			ev, ok := q.Pop()
			require.Equal(t, len(model) > 0, ok)
			if ok {
				require.Equal(t, model[0], ev)
				model = model[1:]
			}
		case 3:
			gone := objects[rng.IntN(len(objects))]
			model = slices.DeleteFunc(model, func(o verbs.AsyncEvent) bool { return o.QP == gone })
			q.Forget(gone)
		}
		require.Equal(t, len(model), q.Len())
	}
}
