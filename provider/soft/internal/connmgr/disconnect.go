//go:build linux

package connmgr

import (
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
)

const (
	// NoticeInterval is the time between two checks whether the peer's notices have
	// arrived; see awaitNotices. The number is arbitrary.
	NoticeInterval = time.Millisecond
	// NoticeLimit is the longest time for which an ID waits for the peer's notices. The
	// wait is limited because a peer whose process is stopped sends no notices. The number
	// is arbitrary.
	NoticeLimit = time.Second
)

// Disconnect implements cm.TransportID. It moves the queue pair to the error state. Then
// it sends a DREQ, or a DREP if the peer has sent a DREQ.
func (i *ID) Disconnect(private []byte) error {
	ch := i.lock()
	defer ch.unlock()
	i.flushQP()
	switch i.state {
	case StateEstablished:
		i.enter(StateDREQSent)
		i.StartTimer(i.dreqTimeout())
		// An error means that the peer has closed its socket. The channel will notice that and
		// call PeerGone.
		_ = i.conn.Send(&DREQ{Private: private})
	case StateDREQArrived:
		_ = i.conn.Send(&DREP{})
		i.disconnected(0)
	case StateDREQReceived:
		i.enter(StateEnded)
		_ = i.conn.Send(&DREP{})
		i.raise(cm.TransportEvent{Type: cm.TimewaitExit})
	}
	return nil
}

// dreqTimeout returns how long the ID waits for the answer to its DREQ.
func (i *ID) dreqTimeout() time.Duration {
	if i.active {
		return activeDREQTimeout
	}
	return passiveDREQTimeout
}

// onDREQ handles the DREQ of the peer. The queue pair keeps its state until the
// application calls Disconnect (rdma_disconnect(3)).
func (i *ID) onDREQ(m *DREQ) bool {
	switch i.state {
	case StateREPReceived, StateREPSent, StateEstablished:
		// A DREQ can arrive before the RTU. On the active side, it can arrive before the
		// application has called Establish.
		i.enter(StateDREQArrived)
		i.disconnectData = m.Private
		ch := i.ch.Load()
		i.timerLimit = ch.clock().Add(NoticeLimit)
		i.awaitNotices()
	case StateDREQSent:
		// Both sides have sent a DREQ. Each side treats the DREQ of its peer as the answer
		// to its own DREQ.
		i.disconnectData = m.Private
		i.disconnected(0)
	default:
		return false
	}
	return true
}

// awaitNotices queues the event Disconnected if all notices that the peer has sent before
// its DREQ have arrived, or if timerLimit is reached. Otherwise awaitNotices starts the
// timer, which calls awaitNotices again after NoticeInterval.
//
// A notice says which requests of this side the peer has executed. These requests must
// complete before the application gets the event, because the application then flushes
// the queue pair.
func (i *ID) awaitNotices() {
	ch := i.ch.Load()
	if i.bound.awaitsNotices(i.m.Engine) && ch.clock().Before(i.timerLimit) {
		i.StartTimer(NoticeInterval)
		return
	}
	i.enter(StateDREQReceived)
	i.raise(cm.TransportEvent{Type: cm.Disconnected, PrivateData: i.disconnectData})
}

// Stale ends a connection because the peer has used the connection's queue pair
// in another request.
func (i *ID) Stale() {
	switch i.state {
	case StateREQReceived:
		i.enter(StateWithdrawn)
	case StateREPReceived, StateREPSent, StateEstablished:
		i.enter(StateDREQReceived)
		i.raise(cm.TransportEvent{Type: cm.Disconnected, Err: cm.ErrStale})
	case StateDREQSent:
		// The peer will not answer this side's DREQ.
		i.disconnected(0)
	}
}

// onDREP handles a DREP, which confirms a DREQ.
func (i *ID) onDREP() bool {
	if i.state != StateDREQSent {
		return false
	}
	i.disconnected(0)
	return true
}
