//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// post leaves a datagram for the carrier. The caller holds the exchange's lock.
func (c *madConn) enqueueMAD(m *wire.MAD) {
	kept := *m
	c.received++
	c.enqueue(jobMessage, func() { c.handleMAD(&kept) })
}

// leave has something done with the lock of the carrier's channel. The caller
// holds the exchange's.
func (c *madConn) enqueue(kind jobKind, job func()) {
	ch := c.ch
	ch.inbox.add(kind, func() {
		if c.onChannel(ch, kind, job) {
			job()
		}
	})
}

// onChannel reports whether the carrier is on a channel whose lock is held. If it has
// moved on, so does the job.
func (c *madConn) onChannel(ch *channel, kind jobKind, job func()) bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.ch != ch && !c.closed {
		c.enqueue(kind, job)
	}
	return c.ch == ch && !c.closed
}

// take does what a datagram asks for. Its peer, and its communication id, are
// ours. What does not fit is dropped: it is late, or repeated.
func (c *madConn) handleMAD(m *wire.MAD) {
	if c.fromPeer(m) && secondID(m) == c.ownID {
		c.validate()
	}
	switch m.Attribute() {
	case wire.AttrMRA:
		c.onMRA(m)
	case wire.AttrREP:
		c.onREP(m)
	case wire.AttrRTU:
		if c.fromPeer(m) {
			c.deliver(&rtuMsg{})
		}
	case wire.AttrREJ:
		c.onREJ(m)
	case wire.AttrDREQ:
		c.onDREQ(m)
	case wire.AttrDREP:
		if c.fromPeer(m) {
			c.deliver(&drepMsg{})
		}
	case wire.AttrSIDRREP:
		var r wire.SIDRREP
		r.Decode(m)
		c.deliver(parseSIDRREP(&r))
	}
}

// fromPeer reports whether the sender's id is the one that the peer told.
func (c *madConn) fromPeer(m *wire.MAD) bool { return c.peerID != 0 && firstID(m) == c.peerID }

// deliver hands a message to the ID. One that it takes is an answer to what is
// being repeated. A carrier without an ID waits for any answer.
func (c *madConn) deliver(m message) {
	_, ready := m.(*rtuMsg)
	if c.id == nil {
		if !ready {
			c.release()
		}
		return
	}
	if c.deliveryStopped {
		return
	}
	// A late RTU is no answer to a DREQ.
	if c.id.deliver(m) && (!ready || c.retransmit.mad.Attribute() == wire.AttrREP) {
		c.retransmit.stop()
	}
}

// onMRA: the peer has got what is repeated, and its application takes its time
// (IBTA vol. 1, 12.6.6).
func (c *madConn) onMRA(m *wire.MAD) {
	var r wire.MRA
	r.Decode(m)
	if c.id == nil {
		return
	}
	switch attr := c.retransmit.mad.Attribute(); {
	case r.Received == wire.AnsweredREQ && attr == wire.AttrREQ && c.retransmit.running():
	case r.Received == wire.AnsweredREP && attr == wire.AttrREP && c.id.state == stateREPSent && c.fromPeer(m):
	default:
		return
	}
	wait := codeTime(r.ServiceTimeout) + maxInterval
	c.retransmit.schedule(wait)
	c.id.extendTimer(wait + requestTimeout)
}

// onREP: a connection is accepted; or the peer repeats that, because our answer
// was lost or takes long.
func (c *madConn) onREP(m *wire.MAD) {
	var r wire.REP
	r.Decode(m)
	again := c.peerID == r.LocalID
	switch {
	case c.id == nil:
	case c.id.state == stateREQSent && c.id.ps == cm.TCP && c.acceptREP(&r):
		c.deliver(parseREP(&r))
		if c.id.state == stateEstablished {
			c.retransmit.startRTU() // because deliver has stopped the repeater
		}
	case again && c.rtuSent && c.id.state == stateEstablished:
		c.retransmit.sendNow()
	case again && c.id.state == stateREPReceived:
		c.sendMRA(wire.AnsweredREP)
	case c.id.state == stateEnded && !again:
		c.mux.mu.Lock()
		c.mux.reject(c.port, c.remote, m, wire.AnsweredREP, cm.RejectInvalidCommID)
		c.mux.mu.Unlock()
	}
}

// accepts notes who the peer is, and reports whether that makes sense.
func (c *madConn) acceptREP(r *wire.REP) bool {
	if r.LocalID == 0 || r.QPN <= wire.GSIQPN || r.QPN == wire.MulticastQPN {
		return false
	}
	return c.recordPeer(r.CAGUID, r.LocalID, r.QPN)
}

// meet records the peer's GUID, communication ID and queue pair. It returns false,
// and records nothing, if another connection of the peer has the same communication
// ID. If another connection has the same queue pair, that connection is stale, as it
// is after a request.
func (c *madConn) recordPeer(guid uint64, id, qpn uint32) bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	peer, queuePair := peerKey{c.remote, guid, id}, peerKey{c.remote, guid, qpn}
	if other := c.mux.byPeer[peer]; other != nil && other != c {
		return false
	}
	if old := c.mux.byQP[queuePair]; old != nil && old != c {
		old.enqueue(jobRequest, old.stale)
	}
	c.peerGUID, c.peerID, c.peerQPN = guid, id, qpn
	c.mux.byPeer[peer] = c
	c.mux.byQP[queuePair] = c
	return true
}

// sendMRA tells the peer that its message has come, and the answer will
// later.
func (c *madConn) sendMRA(what wire.Answered) {
	r := wire.MRA{LocalID: c.ownID, RemoteID: c.peerID, Received: what, ServiceTimeout: c.serviceTimeout()}
	var m wire.MAD
	r.Encode(&m, c.requestTID())
	c.transmit(&m)
}

// onREJ handles a REJ: the peer refuses, or gives up. A lookup is refused by
// SIDR_REP, and the protocol has no REJ for it (IBTA vol. 1, 12.11).
func (c *madConn) onREJ(m *wire.MAD) {
	var r wire.REJ
	r.Decode(m)
	if c.id != nil && c.id.ps == cm.UDP {
		return
	}
	switch {
	case c.peerID != 0 && r.LocalID != c.peerID:
		// The peer has sent its ID before, so a REJ of the peer names it.
		return
	case r.RemoteID != c.ownID && (c.id == nil || c.id.state >= stateEstablished):
		// A connected peer knows the ID of this side, so its REJ names that.
		return
	}
	if !c.retryWithSmallerMTU(&r) {
		c.deliver(c.refusal(&r))
	}
}

// onDREQ: the peer wants to end the connection, of which it names our queue
// pair. One that is ended already is confirmed again.
func (c *madConn) onDREQ(m *wire.MAD) {
	var r wire.DREQ
	r.Decode(m)
	if !c.fromPeer(m) || r.RemoteQPN != c.qpn {
		return
	}
	c.lastTID = m.TID()
	if c.id == nil || c.id.state == stateEnded || c.id.state == stateDREQSent {
		// Where both wish it, the peer may wait for an answer all the same.
		var answer wire.MAD
		c.encode(&answer, &drepMsg{})
		c.transmit(&answer)
	}
	c.deliver(&dreqMsg{})
}

// heard handles data from the peer. On the passive side the data may arrive before
// the RTU. On the active side it shows that the peer has the RTU.
func (c *madConn) peerSentData() {
	switch {
	case c.id == nil:
	case c.id.state == stateREPSent:
		c.validate()
		c.deliver(&rtuMsg{})
	case c.rtuSent && c.id.state == stateEstablished:
		c.retransmit.stop()
	default:
		// The application has called Notify first.
		c.validate()
	}
}
