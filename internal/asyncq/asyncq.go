// Package asyncq holds asynchronous events of a device until the application fetches
// them.
//
// A device may report the same event any number of times. So a Queue holds at most one
// event of each type for each object. It drops no type of event, because an event may be
// the only sign that an object has failed.
package asyncq

import "github.com/rdmaloop/rdmaloop/verbs"

// A Queue holds events in the order of arrival. The zero value is an empty queue. Only
// one goroutine at a time may use a Queue.
type Queue struct {
	head, tail *entry
	count      int
	// First entry of each subject. The other entries of the subject follow through the
	// field sibling.
	objects map[any]*entry
	spare   *entry // unused entry, or nil; saves an allocation
}

// An entry is one waiting event.
type entry struct {
	ev verbs.AsyncEvent
	// Neighbors in the order of arrival.
	prev, next *entry
	sibling    *entry // next entry with the same subject, or nil
}

// port is a device's port, or 0 for the device. It is the subject of an event that is not
// about a queue pair, CQ or SRQ.
type port uint8

// subject returns what the event is about: a queue pair, a CQ, an SRQ or a port.
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

// Push appends an event. An older event of the same type about the same object is
// removed. So the last event about a port tells the port's state.
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
	e := q.spare
	if q.spare = nil; e == nil {
		e = &entry{}
	}
	e.ev, e.sibling = ev, q.objects[about]
	q.objects[about] = e
	q.append(e)
}

// Pop removes and returns the oldest event. If there is none, ok is false.
func (q *Queue) Pop() (ev verbs.AsyncEvent, ok bool) {
	e := q.head
	if e == nil {
		return ev, false
	}
	q.unlink(e)
	q.disown(e)
	ev = e.ev
	q.recycle(e)
	return ev, true
}

// Forget removes the waiting events about a closed verbs.QP, verbs.CQ or verbs.SRQ.
func (q *Queue) Forget(object any) {
	for e := q.objects[object]; e != nil; {
		sibling := e.sibling
		q.unlink(e)
		q.recycle(e)
		e = sibling
	}
	delete(q.objects, object)
}

// recycle keeps a removed entry for the next event.
func (q *Queue) recycle(e *entry) {
	*e = entry{}
	q.spare = e
}

// disown removes an entry from the entries with the same subject.
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
