//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
)

// Disconnect implements cm.TransportID. It moves the queue pair to the error state. If
// the connection is open, Disconnect then sends a DREQ. If the peer has sent a DREQ,
// Disconnect answers it with a DREP. In all other states it sends nothing.
func (i *id) Disconnect() error {
	ch := i.lock()
	defer ch.unlock()
	i.flushQP()
	switch i.state {
	case stateEstablished:
		i.enter(stateDREQSent)
		i.startTimer(i.dreqTimeout())
		// If send fails, the peer has closed the connection. The error is ignored,
		// because the channel also notices the closed socket, and then calls peerGone.
		_ = i.conn.send(&dreqMsg{})
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
// application answers with Disconnect (rdma_disconnect(3)).
func (i *id) onDREQ() bool {
	switch i.state {
	case stateREPReceived, stateREPSent, stateEstablished:
		// In stateREPSent the peer has disconnected before its RTU has arrived. In
		// stateREPReceived the peer has called Notify, and has disconnected before this
		// side has called Establish.
		i.enter(stateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected})
	case stateDREQSent:
		// Both sides have sent a DREQ at the same time. Each DREQ confirms the other.
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// connectionStale ends a connection that exists only on this side. It is called when the
// peer requests a new connection with the queue pair of the old one.
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
