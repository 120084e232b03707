//go:build linux

package soft

import "github.com/rdmaloop/rdmaloop/cm"

// An eventQueue holds events that were not fetched yet, first in first out.
type eventQueue struct {
	events []cm.TransportEvent
	head   int
}

func (q *eventQueue) empty() bool { return q.head == len(q.events) }

func (q *eventQueue) push(ev cm.TransportEvent) { q.events = append(q.events, ev) }

// pop takes the oldest event.
func (q *eventQueue) pop(ev *cm.TransportEvent) bool {
	if q.empty() {
		return false
	}
	*ev = q.events[q.head]
	q.events[q.head] = cm.TransportEvent{}
	if q.head++; q.empty() {
		q.events, q.head = q.events[:0], 0
	}
	return true
}

// extract takes the events of an ID, in order: those that happened to it, and
// for a listener the requests.
func (q *eventQueue) extract(of *id) []cm.TransportEvent {
	var taken []cm.TransportEvent
	kept := q.events[:0]
	for _, ev := range q.events[q.head:] {
		if ev.ID == of || ev.Listener == of {
			taken = append(taken, ev)
		} else {
			kept = append(kept, ev)
		}
	}
	clear(q.events[len(kept):])
	q.events, q.head = kept, 0
	return taken
}
