//go:build linux

package connmgr

import "github.com/rdmaloop/rdmaloop/cm"

// An eventQueue has the events of a channel that the application has not fetched yet, the
// oldest first.
type eventQueue struct {
	events []cm.TransportEvent
	head   int
	// number of events in the queue, without those of destroyed IDs
	pending int
}

func (q *eventQueue) empty() bool { return q.pending == 0 }

func (q *eventQueue) push(ev cm.TransportEvent) {
	q.events = append(q.events, ev)
	q.count(&ev, 1)
}

// count adds n to the numbers of events of the queue, of the event's ID and of its
// listener. The parameter n is 1 or -1.
func (q *eventQueue) count(ev *cm.TransportEvent, n int) {
	q.pending += n
	ev.ID.(*ID).queued += n
	if l, ok := ev.Listener.(*ID); ok {
		l.queued += n
	}
}

// pop removes the oldest event and stores it in ev. It skips the events of destroyed IDs.
// It returns false if the queue has no event.
func (q *eventQueue) pop(ev *cm.TransportEvent) bool {
	for !q.empty() {
		*ev = q.events[q.head]
		q.events[q.head] = cm.TransportEvent{}
		q.head++
		if !ev.ID.(*ID).dropped {
			q.count(ev, -1)
			q.resetIfEmpty()
			return true
		}
	}
	return false
}

// resetIfEmpty clears the queue if all its events belong to destroyed IDs.
func (q *eventQueue) resetIfEmpty() {
	if q.empty() {
		clear(q.events[q.head:])
		q.events, q.head = q.events[:0], 0
	}
}

// extract removes the events of an ID from the queue and returns them. For a listening
// ID, the result includes the events of its requests.
func (q *eventQueue) extract(of *ID) []cm.TransportEvent {
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

// drop marks an ID as destroyed, so that pop() skips its events. A listening ID must have
// no requests in the queue.
func (q *eventQueue) drop(of *ID) {
	q.pending -= of.queued
	of.queued, of.dropped = 0, true
	q.resetIfEmpty()
}
