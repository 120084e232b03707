package cq

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxEvents is the largest number of events that one Consume takes. A broken channel may
// have events without end. The number is arbitrary.
const maxEvents = 1024

// Arm prepares for a sleep. It arms every CQ that is not armed, and then polls all CQs
// once more. It allocates memory only after a failure. Source: ibv_req_notify_cq(3).
//
// If busy is true, the owner must not sleep: a CQ has completions, has failed, or could
// not be armed. The owner calls Queue.Poll. If busy is false, the owner sleeps until FD
// is readable, but not longer than the safety timeout.
//
// The error joins one *verbs.OpError for each CQ that could not be armed.
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
// Consume when FD is readable. If more events are left, FD stays readable. Consume never
// blocks and does not allocate memory. Source: ibv_get_cq_event(3).
//
// The error is a *verbs.OpError. The number is valid even if there is an error.
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

// handleEvent handles one event. Events of closed queues are only counted.
func (g *Group) handleEvent(cookie slots.Handle) {
	g.stats.Events++
	q, ok := g.byCookie.Get(cookie)
	if !ok {
		g.stats.StaleEvents++
		return
	}
	(*q).eventArrived()
}

// Rescued repairs the group after a lost event: the next Arm arms every CQ. Rescued also
// adds 1 to Stats.Rescues, except with Config.SolicitedOnly. Call Rescued if all of the
// following has happened:
//
//   - The safety timeout ended a sleep.
//   - Consume found no event.
//   - The next polls found completions.
func (g *Group) Rescued() {
	for _, q := range g.queues {
		q.armed = false
	}
	if !g.config.SolicitedOnly {
		g.stats.Rescues++
	}
}
