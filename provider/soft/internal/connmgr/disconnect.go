//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
)

const (
	// noticeInterval is the time after which an ID in stateDREQArrived looks for notices
	// again. Arbitrary.
	noticeInterval = time.Millisecond
	// noticeLimit is the longest wait for notices. A peer whose process is stopped does
	// not send them. Arbitrary.
	noticeLimit = time.Second
)

// Disconnect implements cm.TransportID. It flushes the queue pair. Then it sends a DREQ,
// or answers the DREQ of the peer.
func (i *id) Disconnect() error {
	ch := i.lock()
	defer ch.unlock()
	i.flushQP()
	switch i.state {
	case stateEstablished:
		i.enter(stateDREQSent)
		i.startTimer(i.dreqTimeout())
		// If the send fails, the peer has closed its socket. The channel notices that
		// later, and calls peerGone.
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

// dreqTimeout returns the time that the ID waits for the answer to a DREQ.
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
		// A DREQ can arrive before the RTU, or before this side has called Establish.
		i.enter(stateDREQArrived)
		ch := i.ch.Load()
		i.timerLimit = ch.clock().Add(noticeLimit)
		i.awaitNotices()
	case stateDREQSent:
		// Both sides have sent a DREQ. Each DREQ confirms the other one.
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// awaitNotices queues the event Disconnected, unless notices are missing that the peer
// has sent before its DREQ. While they are missing, awaitNotices is called again after
// each noticeInterval, until timerLimit.
//
// The notices say which requests the peer has executed. After the event, the application
// flushes the queue pair. So the executed requests have to complete before the event.
func (i *id) awaitNotices() {
	ch := i.ch.Load()
	if i.conn.awaitsNotices() && ch.clock().Before(i.timerLimit) {
		i.startTimer(noticeInterval)
		return
	}
	i.enter(stateDREQReceived)
	i.raise(cm.TransportEvent{Type: cm.Disconnected})
}

// connectionStale ends a connection because its peer requests another connection with
// the same queue pair.
func (i *id) connectionStale() {
	switch i.state {
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateREPReceived, stateREPSent, stateEstablished:
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: cm.ErrStale})
	case stateDREQSent:
		// The peer will not answer the DREQ that this side has sent.
		i.disconnected(0)
	}
}

// onDREP handles the confirmation of a DREQ.
func (i *id) onDREP() bool {
	if i.state != stateDREQSent {
		return false
	}
	i.disconnected(0)
	return true
}
