//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/cm"

// An eventQueue holds events that were not fetched yet, first in first out.
type eventQueue struct {
	events  []cm.TransportEvent
	head    int
	pending int // number of events to be fetched, without those of destroyed IDs
}

func (q *eventQueue) empty() bool { return q.pending == 0 }

func (q *eventQueue) push(ev cm.TransportEvent) {
	q.events = append(q.events, ev)
	q.count(&ev, 1)
}

// count adds n to the counters of an event that is added (1) or removed (-1).
func (q *eventQueue) count(ev *cm.TransportEvent, n int) {
	q.pending += n
	ev.ID.(*id).queued += n
	if l, ok := ev.Listener.(*id); ok {
		l.queued += n
	}
}

// pop takes the oldest event.
func (q *eventQueue) pop(ev *cm.TransportEvent) bool {
	for !q.empty() {
		*ev = q.events[q.head]
		q.events[q.head] = cm.TransportEvent{}
		q.head++
		if !ev.ID.(*id).dropped {
			q.count(ev, -1)
			q.resetIfEmpty()
			return true
		}
	}
	return false
}

// tidy frees the remaining events when no event is to be fetched any more.
func (q *eventQueue) resetIfEmpty() {
	if q.empty() {
		clear(q.events[q.head:])
		q.events, q.head = q.events[:0], 0
	}
}

// extract takes the events of an ID, in order: those that happened to it, and
// for a listener the requests.
func (q *eventQueue) extract(of *id) []cm.TransportEvent {
	if of.queued == 0 {
		return nil
	}
	var taken []cm.TransportEvent
	kept := q.events[:0]
	for _, ev := range q.events[q.head:] {
		if ev.ID == of || ev.Listener == of {
			taken = append(taken, ev)
			q.count(&ev, -1)
		} else {
			kept = append(kept, ev)
		}
	}
	clear(q.events[len(kept):])
	q.events, q.head = kept, 0
	return taken
}

// drop removes the events of an ID that does not listen and is about to be destroyed.
// pop skips them later. Searching the queue for each of many IDs that end together
// would take time quadratic in their number.
func (q *eventQueue) drop(of *id) {
	q.pending -= of.queued
	of.queued, of.dropped = 0, true
	q.resetIfEmpty()
}
