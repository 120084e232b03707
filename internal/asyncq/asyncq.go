// Package asyncq holds asynchronous events of a device until the application fetches
// them.
//
// An event may be the only sign that a queue pair or a completion queue has failed, so
// the application must learn of it. But a device may report the same event any number of
// times, so the queue must not grow with each report. A Queue therefore keeps at most one
// event of each type for each object. A caller that has fetched all events nevertheless
// knows all that it would know without this limit. The number of waiting events is at
// most the number of open objects multiplied by the few event types of an object.
package asyncq

import "github.com/rdmaloop/rdmaloop/verbs"

// A Queue holds events in the order in which they arrived, oldest first. The zero value
// is an empty queue. A Queue has no lock: the caller serializes its calls.
type Queue struct {
	head, tail *entry
	count      int
	// For each subject, the first entry of a list of entries. entry.sibling points to
	// the next entry in that list.
	objects map[any]*entry
}

// An entry is one waiting event.
type entry struct {
	ev verbs.AsyncEvent
	// Neighbours of the entry in the list of all entries, which is in order of arrival.
	prev, next *entry
	sibling    *entry // Next entry with the same subject, or nil.
}

// port is the subject of an event that belongs to no object: the number of a device
// port, or 0 for the device itself.
type port uint8

// subject returns the object that the event is about: the queue pair, the CQ, the SRQ,
// or the port.
func subject(ev *verbs.AsyncEvent) any {
	switch {
	case ev.QP != nil:
		return ev.QP
	case ev.CQ != nil:
		return ev.CQ
	case ev.SRQ != nil:
		return ev.SRQ
	}
	return port(ev.Port)
}

// Len returns the number of waiting events.
func (q *Queue) Len() int { return q.count }

// Push appends an event. If an event of the same type about the same object waits
// already, Push removes that one. So when a port goes up and down repeatedly, the latest
// state is fetched last.
func (q *Queue) Push(ev verbs.AsyncEvent) {
	about := subject(&ev)
	for e := q.objects[about]; e != nil; e = e.sibling {
		if e.ev.Type == ev.Type {
			q.unlink(e)
			q.append(e)
			return
		}
	}
	if q.objects == nil {
		q.objects = make(map[any]*entry)
	}
	e := &entry{ev: ev, sibling: q.objects[about]}
	q.objects[about] = e
	q.append(e)
}

// Pop removes and returns the oldest event. It reports false when the queue is empty.
func (q *Queue) Pop() (ev verbs.AsyncEvent, ok bool) {
	e := q.head
	if e == nil {
		return ev, false
	}
	q.unlink(e)
	q.disown(e)
	return e.ev, true
}

// Forget drops the events about an object that has been closed: a verbs.QP, verbs.CQ or
// verbs.SRQ.
func (q *Queue) Forget(object any) {
	for e := q.objects[object]; e != nil; e = e.sibling {
		q.unlink(e)
	}
	delete(q.objects, object)
}

// disown removes an entry from the list of the entries that have its subject.
func (q *Queue) disown(e *entry) {
	about := subject(&e.ev)
	if q.objects[about] != e {
		before := q.objects[about]
		for before.sibling != e {
			before = before.sibling
		}
		before.sibling = e.sibling
		return
	}
	if e.sibling == nil {
		delete(q.objects, about)
		return
	}
	q.objects[about] = e.sibling
}

func (q *Queue) append(e *entry) {
	e.prev, e.next = q.tail, nil
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
	q.count++
}

func (q *Queue) unlink(e *entry) {
	if e.prev == nil {
		q.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	q.count--
}
