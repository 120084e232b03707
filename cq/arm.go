package cq

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxEvents limits the events of one Consume, in case a defective channel returns events
// without end. Arbitrary.
const maxEvents = 1024

// Arm prepares for a sleep. It arms every CQ that is not armed, and then polls every CQ
// again. It allocates memory only after a failure. Source: ibv_req_notify_cq(3).
//
// If the first result is true, the owner calls Queue.Poll, because a CQ has completions,
// has failed, or could not be armed. If it is false, the owner sleeps until FD is
// readable, with a time limit.
//
// The error joins the *verbs.OpErrors of CQs that could not be armed.
func (g *Group) Arm() (busy bool, err error) {
	if g.closed {
		return true, operr.Wrap("arm CQ", verbs.ErrClosed)
	}
	for _, q := range g.queues {
		if failed := q.arm(); failed != nil {
			busy, err = true, errors.Join(err, failed)
		}
	}
	for _, q := range g.queues {
		if q.hasResult() {
			busy = true
		}
	}
	return busy, err
}

// Consume takes events from the channel and returns their number. The owner calls
// Consume when FD is readable. FD stays readable if more events wait. Consume never
// blocks and does not allocate memory. Source: ibv_get_cq_event(3).
//
// The error is a *verbs.OpError. The number includes the events that were taken before
// the error.
func (g *Group) Consume() (events int, err error) {
	for events < maxEvents {
		cookie, ok, err := g.channel.Next()
		if err != nil || !ok {
			return events, operr.Wrap("get CQ event", err)
		}
		g.handleEvent(slots.Handle(cookie))
		events++
	}
	return events, nil
}

// handleEvent handles one event. For an event of a closed or unknown queue it adds 1 to
// Stats.StaleEvents.
func (g *Group) handleEvent(cookie slots.Handle) {
	g.stats.Events++
	q, ok := g.byCookie.Get(cookie)
	if !ok {
		g.stats.StaleEvents++
		return
	}
	(*q).eventArrived()
}

// Rescued repairs the group after a lost event: the next Arm arms every CQ. Rescued adds
// 1 to Stats.Rescues, except with Config.SolicitedOnly. The owner calls Rescued after
// this sequence:
//
//   - The safety timeout ends a sleep.
//   - Consume finds no event.
//   - The next polls find completions.
func (g *Group) Rescued() {
	for _, q := range g.queues {
		q.armed = false
	}
	if !g.config.SolicitedOnly {
		g.stats.Rescues++
	}
}
