package cq

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxEvents is the largest number of events that one Consume takes from the channel.
// Without a limit, a defective channel that returns events without end would block the
// caller for ever. If there are more events, FD stays readable, and the next Consume
// takes them. The number is arbitrary.
const maxEvents = 1024

// Arm prepares for a sleep. It arms every CQ that is not armed, and then polls every CQ
// again.
//
// If busy is true, the owner must not sleep: a poll has found completions or an error,
// which the next Queue.Poll returns, or a CQ could not be armed. If busy is false, the
// owner waits for FD at once, with a time limit.
//
// The error joins the *verbs.OpErrors of the CQs that could not be armed. The next Arm
// tries these CQs again. After the poll of a CQ has failed, busy is true until Queue.Poll
// has returned the error. A failure of one CQ does not affect the others. Arm allocates
// memory only if something fails. Source: ibv_req_notify_cq(3).
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

// Consume takes the events from the channel and returns their number. The owner calls it
// when FD is readable. At other times it finds no events. It never blocks and does not
// allocate memory. The error is a *verbs.OpError. Events that were taken before the error
// are handled, and are included in the number. Source: ibv_get_cq_event(3).
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

// handleEvent handles one event. If the queue of the event is closed or unknown,
// handleEvent only adds 1 to Stats.StaleEvents. It can not acknowledge the event, because
// the CQ does not exist any more.
func (g *Group) handleEvent(cookie slots.Handle) {
	g.stats.Events++
	q, ok := g.byCookie.Get(cookie)
	if !ok {
		g.stats.StaleEvents++
		return
	}
	(*q).eventArrived()
}

// Rescued repairs the group after a lost event. The owner calls it if three things happen
// one after the other: the safety timeout ends a sleep, Consume finds no event, and the
// next polls find completions. The repair is necessary because a CQ counts as armed until
// its event is consumed. The CQ whose event was lost would never be armed again. After
// Rescued, the next Arm arms every CQ. Rescued adds 1 to Stats.Rescues, but not with
// Config.SolicitedOnly, where completions without an event are normal.
func (g *Group) Rescued() {
	for _, q := range g.queues {
		q.armed = false
	}
	if !g.config.SolicitedOnly {
		g.stats.Rescues++
	}
}
