// Package asyncq holds asynchronous events of a device until the application fetches
// them.
//
// An event may be the only sign that a queue pair or a completion queue has failed. So if
// a device reports events of a type for an object, the application must get at least one
// of them. But a device may report the same event any number of times, so the memory for
// events must be limited.
//
// A Queue therefore holds at most one event of each type for each object. Repeated events
// of the same type would tell the application nothing new. The number of events in a
// Queue is at most the number of open objects multiplied by the number of event types of
// an object.
package asyncq

import "github.com/rdmaloop/rdmaloop/verbs"

// A Queue holds events in the order in which they arrived, oldest first. The zero value
// is an empty queue. A Queue has no lock: the caller serializes its calls.
type Queue struct {
	head, tail *entry
	count      int
	// The waiting events by subject. The function subject returns the subject of an
	// event. A value of the map is the first of all entries with that subject. The field
	// sibling links these entries.
	objects map[any]*entry
}

// An entry is one waiting event.
type entry struct {
	ev verbs.AsyncEvent
	// The entries before and after this entry in the list of all entries. The list is in
	// order of arrival.
	prev, next *entry
	sibling    *entry // Next entry with the same subject, or nil.
}

// port is the subject of an event that is not about a queue pair, CQ or SRQ. It is the
// number of the device port that the event is about, or 0 for the device itself.
type port uint8

// subject returns the object that the event is about: a queue pair, a CQ, an SRQ, or else
// a port.
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

// Push appends an event. If an event of the same type about the same object is waiting
// already, Push removes the older event. So if a port goes up and down repeatedly, the
// last event that the application fetches tells the present state of the port.
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

// disown removes an entry from the list of entries with the same subject.
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
