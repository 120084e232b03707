// Package asyncq holds asynchronous events of a device until somebody fetches them.
//
// An event may be the only sign that a queue pair or a completion queue is dead, so none
// may be lost, and a device may report the same thing without end, so they can not all be
// kept. A Queue keeps one event of each type for each object: what is known after all
// events have been fetched is the same. The number of events that wait is therefore
// bounded by the number of open objects and by the few types that each can have.
package asyncq

import "github.com/rdmaloop/rdmaloop/verbs"

// A Queue is events in the order in which they came, oldest first. The zero value is an
// empty one. It has no lock.
type Queue struct {
	head, tail *entry
	count      int
	objects    map[any]*entry // by subject: its entries, linked by sibling
}

// An entry is one event that waits.
type entry struct {
	ev         verbs.AsyncEvent
	prev, next *entry // in the queue
	sibling    *entry // of the same subject
}

// port is the subject of an event that belongs to no object: a port of the device, or
// the device itself, which is port 0.
type port uint8

// subject is what an event is about.
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

// Len is the number of events that wait.
func (q *Queue) Len() int { return q.count }

// Push adds an event as the newest. An event of the same type about the same object that
// still waits gives way, so that of two types which exclude each other, such as those
// of a port, the last to happen is the last to be fetched.
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

// Pop takes the oldest event, and reports false when there is none.
func (q *Queue) Pop() (ev verbs.AsyncEvent, ok bool) {
	e := q.head
	if e == nil {
		return ev, false
	}
	q.unlink(e)
	q.disown(e)
	return e.ev, true
}

// Forget drops the events about an object: a verbs.QP, verbs.CQ or verbs.SRQ that is
// closed.
func (q *Queue) Forget(object any) {
	for e := q.objects[object]; e != nil; e = e.sibling {
		q.unlink(e)
	}
	delete(q.objects, object)
}

// disown takes an entry out of those of its subject.
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
