package providertest

import (
	"fmt"
	"slices"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A queue is a CQ, with the completions that were polled but not yet taken by a case.
type queue struct {
	r      *rig
	cq     verbs.CQ
	vector int
	// polled completions, oldest first
	wcs    []verbs.WC
	paused bool // true if rig.turn must not poll the CQ
}

// newCQ creates a CQ that rig.turn does not poll.
func (r *rig) newCQ(attr verbs.CQAttr) verbs.CQ {
	r.t.Helper()
	attr.Progress = r.progress
	cq, err := r.dev.CreateCQ(&attr)
	r.NoError(err)
	r.GreaterOrEqual(cq.Depth(), attr.Depth)
	r.closing("CQ", cq.Close)
	return cq
}

// newQueue creates a CQ that rig.turn polls.
func (r *rig) newQueue(attr verbs.CQAttr) *queue {
	r.t.Helper()
	q := &queue{r: r, cq: r.newCQ(attr), vector: attr.Vector}
	r.queues = append(r.queues, q)
	r.t.Cleanup(func() { r.queues = slices.DeleteFunc(r.queues, func(o *queue) bool { return o == q }) })
	return q
}

// poll polls the CQ once, unless it is paused. It returns true if there were completions.
func (r *rig) poll(q *queue) bool {
	if q.paused {
		return false
	}
	var buf [16]verbs.WC
	n, err := q.cq.Poll(buf[:])
	r.NoError(err)
	r.LessOrEqual(n, len(buf))
	q.wcs = append(q.wcs, buf[:n]...)
	return n > 0
}

// take waits for n completions and returns them, oldest first.
func (q *queue) take(n int) []verbs.WC {
	q.r.t.Helper()
	q.r.until(fmt.Sprintf("%d completions", n), func() bool { return len(q.wcs) >= n })
	got := slices.Clone(q.wcs[:n])
	q.wcs = q.wcs[n:]
	return got
}

// succeed takes n completions. They must be successful.
func (q *queue) succeed(n int) []verbs.WC {
	q.r.t.Helper()
	wcs := q.take(n)
	for i := range wcs {
		q.r.NoError(wcs[i].Err(), "completion %d of %d", i, n)
	}
	return wcs
}

// one takes one completion. It must be successful.
func (q *queue) one() verbs.WC {
	q.r.t.Helper()
	return q.succeed(1)[0]
}

// fail takes one completion for each id, in order. Each must have the given status.
func (q *queue) fail(status verbs.Status, qp verbs.QP, ids ...uint64) {
	q.r.t.Helper()
	for _, wc := range q.take(len(ids)) {
		// The other fields of a failed completion are not valid (ibv_poll_cq(3)).
		want := verbs.WC{ID: ids[0], Status: status, QPN: qp.Num()}
		q.r.Equal(want, verbs.WC{ID: wc.ID, Status: wc.Status, QPN: wc.QPN}, "%v instead of %v", wc.Status, status)
		ids = ids[1:]
	}
}

// drop forgets the completions that were not taken.
func (q *queue) drop() { q.wcs = nil }

// sequence returns n consecutive ids.
func sequence(first uint64, n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = first + uint64(i)
	}
	return ids
}
