package reactor

import (
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TrimEvery is how often a loop looks for unused memory and completion queues.
// TrimPause is the time between two steps of such a round.
const (
	TrimEvery = trimEvery
	TrimPause = trimPause
)

// Chunks returns the memory regions of the buffers of l.
func Chunks(l *Loop) (mrs []verbs.MR) {
	for _, n := range l.devices {
		for _, c := range n.slab.chunks {
			if c.mr != nil {
				mrs = append(mrs, c.mr)
			}
		}
	}
	return mrs
}

// InjectDeviceEvent lets the loop of c believe that something happened to its device.
func InjectDeviceEvent(c *Conn, what verbs.AsyncEventType) {
	c.loop.deviceEvent(c.device.dev, verbs.AsyncEvent{Type: what, QP: c.qp, CQ: c.queue.cq()})
}

// FetchAsyncEvents makes the loop of c fetch the asynchronous events of the device of c.
func FetchAsyncEvents(c *Conn) { (&asyncSource{loop: c.loop, dev: c.device.dev}).ready(0) }

// FailCQ lets the loop of c believe that its completion queue is broken.
func FailCQ(c *Conn, err error) { c.device.fail(err) }

// FailRequest lets c believe that a request ended with status s.
func FailRequest(c *Conn, s verbs.Status) { _ = c.fail(&verbs.WC{Status: s}, false) }

// Oversleep lets l believe that the safety timeout ended its last sleep, and that
// no event came.
func EndSleepByTimeout(l *Loop) { l.safetyWake = true }

// RemoveDevice lets c believe that its device was removed.
func RemoveDevice(c *Conn) { c.handleEvent(cm.DeviceRemoval, nil) }

// ConnsOf lists the connections of l.
func ConnsOf(l *Loop) []*Conn { return slices.Collect(l.conns.all()) }

// Opening is how many connections of l are to open.
func OpeningConns(l *Loop) int { return l.openingConns }

// OpenDevice has l meet a device.
func OpenDevice(l *Loop, dev verbs.Device) error {
	_, err := l.device(dev)
	return err
}

// Skip lets l believe that d has passed since it last read its clock.
func AdvanceClock(l *Loop, d time.Duration) { l.clock.origin = l.clock.origin.Add(-d) }

// InjectDisconnected lets c believe that its peer has left, and how.
func InjectDisconnected(c *Conn, how error) { c.onDisconnected(how) }

// A ConnQueue is the queue of the connections that have a step to take.
type ConnQueue = connQueue

// Push, Pop and Len are the methods of a ConnQueue; Room is its capacity.
func Push(q *ConnQueue, c *Conn) { q.push(c) }
func Pop(q *ConnQueue) *Conn     { return q.pop() }
func Len(q *ConnQueue) int       { return q.len() }
func Capacity(q *ConnQueue) int  { return cap(q.conns) }

// CloseBudget is how many closing connections may take a step in one turn.
const CloseBudget = closeBudget

// Waiting returns how many unanswered requests the engine keeps.
func PendingRequests(e *Engine) int {
	e.acceptor.mu.Lock()
	defer e.acceptor.mu.Unlock()
	return len(e.acceptor.pending)
}

// Turn returns the number of the current turn of l.
func Turn(l *Loop) uint64 { return l.stats.Turns }

// Cut ends the connections of l without waiting for their peers.
func AbortConns(l *Loop) { l.abortConns() }

// NextKeepaliveTime returns the time at which c next checks how long its peer has been
// silent.
func NextKeepaliveTime(c *Conn) time.Duration { return c.keepalive.when }

// ProbeBudget is how many keepalive probes one turn posts at most.
const ProbeBudget = probeBudget

// EndPendingRequest lets the engine of req believe that it has just fetched the event of req's
// peer or device going away, and not told the loop yet.
func EndPendingRequest(req *ConnRequest, deviceRemoved bool) {
	req.engine.acceptor.mu.Lock()
	defer req.engine.acceptor.mu.Unlock()
	req.endedBy = byPeer
	if deviceRemoved {
		req.endedBy = byRemoval
	}
}

// FetchRequestDuringShutdown lets an engine that was not started fetch an event after
// Shutdown has listed the requests to reject. It reports whether there was an event.
func FetchRequestDuringShutdown(e *Engine) (taken bool, err error) {
	e.acceptor.mu.Lock()
	e.acceptor.closing = true
	e.acceptor.mu.Unlock()
	act, err := e.acceptor.next()
	if act == nil {
		return false, err
	}
	act(e.loops[0])
	return true, nil
}
