package cq

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxTake bounds the events that one Consume takes, so that a channel gone mad
// can not hold the owner. FD stays readable for the rest.
const maxTake = 1024

// Arm prepares for a sleep: it arms every CQ that is not armed, and then polls
// every CQ again. Busy means not to sleep: a poll found something, which the
// next Queue.Poll returns, or a CQ could not be armed. After false the owner has
// to wait for FD at once, with a limit.
//
// The error joins the *verbs.OpErrors of the CQs that could not be armed; they
// are tried again by the next Arm. A CQ whose poll fails makes the group busy
// until Queue.Poll has returned the error, and then no more. A failure of one CQ
// is no hindrance to the others. Arm does not allocate unless something fails.
func (g *Group) Arm() (busy bool, err error) {
	if g.closed {
		return true, verbs.Wrap("arm CQ", verbs.ErrClosed)
	}
	for _, q := range g.queues {
		if failed := q.arm(); failed != nil {
			busy, err = true, errors.Join(err, failed)
		}
	}
	for _, q := range g.queues {
		if q.news() {
			busy = true
		}
	}
	return busy, err
}

func (q *Queue) arm() error {
	if q.armed || q.err != nil {
		return nil
	}
	if err := q.cq.Arm(q.group.config.SolicitedOnly); err != nil {
		return verbs.Wrap("arm CQ", err)
	}
	q.armed = true
	q.group.stats.Arms++
	return nil
}

// Consume takes the events from the channel and returns how many there were. It
// is due when FD is readable; to call it at other times does no harm. It never
// blocks, and does not allocate. With an error, a *verbs.OpError, the events
// before it are counted and dealt with.
func (g *Group) Consume() (events int, err error) {
	for events < maxTake {
		cookie, ok, err := g.channel.Next()
		if err != nil || !ok {
			return events, verbs.Wrap("get CQ event", err)
		}
		g.take(slots.Handle(cookie))
		events++
	}
	return events, nil
}

// take deals with one event. That of a queue which was closed, or never was,
// has nobody to be given back to.
func (g *Group) take(cookie slots.Handle) {
	g.stats.Events++
	q, ok := g.byCookie.Get(cookie)
	if !ok {
		g.stats.StaleEvents++
		return
	}
	(*q).fired()
}

func (q *Queue) fired() {
	if !q.armed {
		q.group.stats.UnaskedEvents++
	}
	q.armed = false
	q.unacked++
	if q.unacked >= q.group.config.AckEvery {
		q.ack()
	}
}

// ack gives back all events of the CQ. See ibv_ack_cq_events(3).
func (q *Queue) ack() {
	if q.unacked == 0 {
		return
	}
	q.cq.AckEvents(q.unacked)
	q.group.stats.Acks++
	q.group.stats.AckedEvents += uint64(q.unacked)
	q.unacked = 0
}

// Rescued is to be called when the safety timeout has ended a sleep, Consume
// found no event, and the polls after that found completions: an event was
// lost, and since a CQ counts as armed until its event comes, that CQ would
// never be armed again. Rescued has every CQ armed anew by the next Arm, and
// counts the loss; with Config.SolicitedOnly, where completions without an
// event are in order, it does not count.
func (g *Group) Rescued() {
	for _, q := range g.queues {
		q.armed = false
	}
	if !g.config.SolicitedOnly {
		g.stats.Rescues++
	}
}
