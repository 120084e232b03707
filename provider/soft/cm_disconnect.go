//go:build linux

package soft

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
)

// Disconnect flushes the queue pair and tells the peer, or answers its wish. In
// phases without a connection it only does the first.
func (i *id) Disconnect() error {
	ch := i.lock()
	defer ch.unlock()
	i.flushQP()
	switch i.state {
	case stateEstablished:
		i.enter(stateDREQSent)
		i.startTimer(i.dreqTimeout())
		// Failing is as if the peer had gone after: its end is noticed.
		_ = i.conn.send(&dreqMsg{})
	case stateDREQReceived:
		i.enter(stateEnded)
		_ = i.conn.send(&drepMsg{})
		i.raise(cm.TransportEvent{Type: cm.TimewaitExit})
	}
	return nil
}

func (i *id) dreqTimeout() time.Duration {
	if i.active {
		return requestTimeout
	}
	return sidrTimeout
}

// onDREQ: the peer wants to end the connection. The queue pair is left as
// it is until the application answers (rdma_disconnect(3)).
func (i *id) onDREQ() bool {
	switch i.state {
	case stateREPReceived, stateREPSent, stateEstablished:
		// The peer may leave before this side has seen that it was ready, or
		// after Notify before this side is.
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected})
	case stateDREQSent:
		// Both at the same time: each wish answers the other.
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// forgotten ends a connection that the peer does not know any more, because it uses
// the queue pair for another connection.
func (i *id) connectionStale() {
	switch i.state {
	case stateREQReceived:
		i.enter(stateWithdrawn)
	case stateREPReceived, stateREPSent, stateEstablished:
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: cm.ErrStale})
	case stateDREQSent:
		// This side has already asked to disconnect.
		i.disconnected(0)
	}
}

// onDREP: the peer agrees.
func (i *id) onDREP() bool {
	if i.state != stateDREQSent {
		return false
	}
	i.disconnected(0)
	return true
}

// disconnected ends a connection that this side left. Nothing of it is on its
// way any more, so the time of waiting for that is over at once.
func (i *id) disconnected(status int) {
	i.enter(stateEnded)
	i.raise(cm.TransportEvent{Type: cm.Disconnected, Status: status})
	i.raise(cm.TransportEvent{Type: cm.TimewaitExit})
}
