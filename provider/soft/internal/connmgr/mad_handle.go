//go:build linux

package connmgr

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// enqueueMAD queues a datagram for the connection. The caller holds the multiplexer's
// lock. handleMAD takes this lock itself, so it is called later, in a job of the
// channel.
func (c *madConn) enqueueMAD(m *wire.MAD) {
	kept := *m
	c.received++
	c.enqueue(jobMessage, func() { c.handleMAD(&kept) })
}

// handleMAD handles a datagram whose address and communication ID were checked. It drops
// messages that the state does not allow.
func (c *madConn) handleMAD(m *wire.MAD) {
	if c.fromPeer(m) && secondID(m) == c.ownID {
		c.validate()
	}
	switch m.Attribute() {
	case wire.AttrMRA:
		c.onMRA(m)
	case wire.AttrREP:
		c.onREP(m)
	case wire.AttrRTU, wire.AttrDREP:
		c.onConfirmation(m)
	case wire.AttrREJ:
		c.onREJ(m)
	case wire.AttrDREQ:
		c.onDREQ(m)
	case wire.AttrSIDRREP:
		var r wire.SIDRREP
		r.Decode(m)
		c.deliver(parseSIDRREP(&r))
	}
}

// fromPeer reports whether the datagram has the communication ID of the peer.
func (c *madConn) fromPeer(m *wire.MAD) bool { return c.peerID != 0 && firstID(m) == c.peerID }

// deliver passes a message to the ID. If the ID accepts the message, the retransmission
// stops. In madOrphan, every message except an RTU ends the connection.
func (c *madConn) deliver(m message) {
	_, isRTU := m.(*rtuMsg)
	switch c.state {
	case madAnswering:
		return
	case madOrphan:
		if !isRTU {
			c.release()
		}
		return
	}
	// A late RTU does not answer a DREQ.
	if c.id.deliver(m) && (!isRTU || c.retransmit.mad.Attribute() == wire.AttrREP) {
		c.retransmit.stop()
	}
}

// onConfirmation handles an RTU or a DREP.
func (c *madConn) onConfirmation(m *wire.MAD) {
	confirmation := message(&rtuMsg{})
	if m.Attribute() == wire.AttrDREP {
		confirmation = &drepMsg{}
	}
	if c.fromPeer(m) {
		c.deliver(confirmation)
	}
}

// onMRA handles an MRA: the peer has the message, and its application needs more time
// (IBTA vol. 1, 12.6.6).
func (c *madConn) onMRA(m *wire.MAD) {
	var r wire.MRA
	r.Decode(m)
	if c.state == madOrphan {
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

// onREP handles a REP or a copy of a REP. The peer sends copies until the RTU arrives.
func (c *madConn) onREP(m *wire.MAD) {
	var r wire.REP
	r.Decode(m)
	duplicate := c.peerID == r.LocalID
	switch {
	case c.state == madOrphan:
	case c.id.state == stateREQSent && c.id.ps == cm.TCP && c.acceptREP(&r):
		c.deliver(parseREP(&r))
		if c.id.state == stateEstablished {
			c.retransmit.startRTU() // The retransmission of the REQ has ended in deliver().
		}
	case duplicate && c.retransmit.hasRTU() && c.id.state == stateEstablished:
		c.retransmit.sendNow()
	case duplicate && c.id.state == stateREPReceived:
		c.sendMRA(wire.AnsweredREP)
	case c.id.state == stateEnded && !duplicate:
		c.mux.mu.Lock()
		c.mux.reject(c.port, c.remote, m, wire.AnsweredREP, cm.RejectInvalidCommID)
		c.mux.mu.Unlock()
	}
}

// acceptREP checks a REP, and records the peer with recordPeer. It returns false if the
// REP is invalid.
func (c *madConn) acceptREP(r *wire.REP) bool {
	if r.LocalID == 0 || r.QPN <= wire.GSIQPN || r.QPN == wire.MulticastQPN {
		return false
	}
	return c.recordPeer(r.CAGUID, r.LocalID, r.QPN)
}

// recordPeer records the peer's GUID, communication ID and queue pair. It returns false
// if another connection has the communication ID. If another connection has the queue
// pair, that connection ends as stale.
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

// sendMRA tells the peer that its message has arrived and the application needs more
// time.
func (c *madConn) sendMRA(what wire.Answered) {
	r := wire.MRA{LocalID: c.ownID, RemoteID: c.peerID, Received: what, ServiceTimeout: c.serviceTimeout()}
	var m wire.MAD
	r.Encode(&m, c.requestTID())
	c.transmit(&m)
}

// onREJ handles a REJ: the peer refuses a message or cancels its request.
func (c *madConn) onREJ(m *wire.MAD) {
	var r wire.REJ
	r.Decode(m)
	if c.state != madOrphan && c.id.ps == cm.UDP {
		return
	}
	switch {
	case c.peerID != 0 && r.LocalID != c.peerID:
		// The peer has sent its ID before. A REJ without that ID is from another sender.
		return
	case r.RemoteID != c.ownID && (c.state == madOrphan || c.id.state >= stateEstablished):
		// The peer knows the ID of this side. A REJ without this ID is from another
		// sender.
		return
	}
	if !c.retryWithSmallerMTU(&r) {
		c.deliver(c.refusal(&r))
	}
}

// onDREQ handles a DREQ for the local queue pair. If the connection has ended, or this
// side has sent a DREQ too, onDREQ answers at once.
func (c *madConn) onDREQ(m *wire.MAD) {
	var r wire.DREQ
	r.Decode(m)
	if !c.fromPeer(m) || r.RemoteQPN != c.bound.qpn {
		return
	}
	c.lastTID = m.TID()
	if c.state == madOrphan || c.id.state == stateEnded || c.id.state == stateDREQSent {
		// The peer retransmits its DREQ until it gets a DREP.
		var answer wire.MAD
		c.encode(&answer, &drepMsg{})
		c.transmit(&answer)
	}
	c.deliver(&dreqMsg{})
}

// dataHeard is called for the peer's first data. The data proves that the peer is
// connected (IBTA vol. 1, 12.9.7.2). Any goroutine may call dataHeard.
func (c *madConn) dataHeard() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.enqueue(jobInternal, c.peerSentData)
}

// peerSentData handles the peer's first data. On the passive side the data confirms the
// REP, and on the active side the RTU.
func (c *madConn) peerSentData() {
	switch {
	case c.state == madOrphan:
	case c.id.state == stateREPSent:
		c.validate()
		c.deliver(&rtuMsg{})
	case c.retransmit.hasRTU() && c.id.state == stateEstablished:
		c.retransmit.stop()
	default:
		// Notify has established the connection. The address is validated only now.
		c.validate()
	}
}
