//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
)

const (
	// noticeInterval is the time between two checks whether the peer's notices have
	// arrived; see awaitNotices. The number is arbitrary.
	noticeInterval = time.Millisecond
	// noticeLimit is the longest time for which an ID waits for the peer's notices. The
	// wait is limited because a peer whose process is stopped sends no notices. The number
	// is arbitrary.
	noticeLimit = time.Second
)

// Disconnect implements cm.TransportID. It moves the queue pair to the error state. Then
// it sends a DREQ, or a DREP if the peer has sent a DREQ.
func (i *id) Disconnect() error {
	ch := i.lock()
	defer ch.unlock()
	i.flushQP()
	switch i.state {
	case stateEstablished:
		i.enter(stateDREQSent)
		i.startTimer(i.dreqTimeout())
		// An error means that the peer has closed its socket. The channel will notice that and
		// call peerGone.
		_ = i.conn.send(&dreqMsg{})
	case stateDREQArrived:
		_ = i.conn.send(&drepMsg{})
		i.disconnected(0)
	case stateDREQReceived:
		i.enter(stateEnded)
		_ = i.conn.send(&drepMsg{})
		i.raise(cm.TransportEvent{Type: cm.TimewaitExit})
	}
	return nil
}

// dreqTimeout returns how long the ID waits for the answer to its DREQ.
func (i *id) dreqTimeout() time.Duration {
	if i.active {
		return activeDREQTimeout
	}
	return passiveDREQTimeout
}

// onDREQ handles the DREQ of the peer. The queue pair keeps its state until the
// application calls Disconnect (rdma_disconnect(3)).
func (i *id) onDREQ() bool {
	switch i.state {
	case stateREPReceived, stateREPSent, stateEstablished:
		// A DREQ can arrive before the RTU. On the active side, it can arrive before the
		// application has called Establish.
		i.enter(stateDREQArrived)
		ch := i.ch.Load()
		i.timerLimit = ch.clock().Add(noticeLimit)
		i.awaitNotices()
	case stateDREQSent:
		// Both sides have sent a DREQ. Each side treats the DREQ of its peer as the answer
		// to its own DREQ.
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// awaitNotices queues the event Disconnected if all notices that the peer has sent before
// its DREQ have arrived, or if timerLimit is reached. Otherwise awaitNotices starts the
// timer, which calls awaitNotices again after noticeInterval.
//
// A notice says which requests of this side the peer has executed. These requests must
// complete before the application gets the event, because the application then flushes
// the queue pair.
func (i *id) awaitNotices() {
	ch := i.ch.Load()
	if i.bound.awaitsNotices(i.m.Engine) && ch.clock().Before(i.timerLimit) {
		i.startTimer(noticeInterval)
		return
	}
	i.enter(stateDREQReceived)
	i.raise(cm.TransportEvent{Type: cm.Disconnected})
}

// connectionStale ends a connection because the peer has used the connection's queue pair
// in another request.
func (i *id) connectionStale() {
	switch i.state {
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateREPReceived, stateREPSent, stateEstablished:
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: cm.ErrStale})
	case stateDREQSent:
		// The peer will not answer this side's DREQ.
		i.disconnected(0)
	}
}

// onDREP handles a DREP, which confirms a DREQ.
func (i *id) onDREP() bool {
	if i.state != stateDREQSent {
		return false
	}
	i.disconnected(0)
	return true
}
