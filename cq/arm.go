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
// If busy is true, the owner must not sleep. There are three possible reasons: a poll
// has found completions, a CQ has failed, or a CQ could not be armed. The next
// Queue.Poll returns the completions, or the error of the failed CQ. If busy is false,
// the owner sleeps until FD is readable, with a time limit.
//
// The error joins the *verbs.OpErrors of the CQs that could not be armed. The next Arm
// tries these CQs again. If a poll of a CQ has failed, busy stays true until Queue.Poll
// has returned the error of that CQ. A failure of one CQ does not affect the others. Arm
// allocates memory only if something fails. Source: ibv_req_notify_cq(3).
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
// Consume when FD is readable. Consume never blocks: if the channel has no event,
// Consume returns 0. It does not allocate memory. The number of events in one call is
// limited; if more events wait, FD stays readable. The error is a *verbs.OpError. The
// number includes the events that were taken before the error occurred. Source:
// ibv_get_cq_event(3).
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

// handleEvent handles one event. An event of a queue that is closed or unknown only adds
// 1 to Stats.StaleEvents. handleEvent does not acknowledge such an event, because its CQ
// does not exist any more.
func (g *Group) handleEvent(cookie slots.Handle) {
	g.stats.Events++
	q, ok := g.byCookie.Get(cookie)
	if !ok {
		g.stats.StaleEvents++
		return
	}
	(*q).eventArrived()
}

// Rescued repairs the group after a lost event. The owner calls Rescued if three things
// happen one after the other: the safety timeout ends a sleep, Consume finds no event,
// and the next polls find completions. A CQ counts as armed until its event is consumed.
// Without Rescued, the CQ whose event was lost would count as armed for ever, and Arm
// would never arm it again. After Rescued no CQ counts as armed, so the next Arm arms
// every CQ. Rescued also adds 1 to Stats.Rescues, except with Config.SolicitedOnly: with
// that option, completions without an event are normal.
func (g *Group) Rescued() {
	for _, q := range g.queues {
		q.armed = false
	}
	if !g.config.SolicitedOnly {
		g.stats.Rescues++
	}
}
