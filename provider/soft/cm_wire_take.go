//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// post leaves a datagram for the carrier. The caller holds the exchange's lock.
func (c *wireCarrier) post(m *wire.MAD) {
	kept := *m
	c.received++
	c.leave(jobMessage, func() { c.take(&kept) })
}

// leave has something done with the lock of the carrier's channel. The caller
// holds the exchange's.
func (c *wireCarrier) leave(kind jobKind, job func()) {
	ch := c.ch
	ch.inbox.leave(kind, func() {
		if c.isOn(ch, kind, job) {
			job()
		}
	})
}

// isOn reports whether the carrier is on a channel whose lock is held. If it has
// moved on, so does the job.
func (c *wireCarrier) isOn(ch *channel, kind jobKind, job func()) bool {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.ch != ch && !c.closed {
		c.leave(kind, job)
	}
	return c.ch == ch && !c.closed
}

// take does what a datagram asks for. Its peer, and its communication id, are
// ours. What does not fit is dropped: it is late, or repeated.
func (c *wireCarrier) take(m *wire.MAD) {
	if c.fromPeer(m) && secondID(m) == c.own {
		c.prove()
	}
	switch m.Attribute() {
	case wire.AttrMRA:
		c.onMRA(m)
	case wire.AttrREP:
		c.onREP(m)
	case wire.AttrRTU:
		if c.fromPeer(m) {
			c.deliver(&readyMsg{})
		}
	case wire.AttrREJ:
		c.onREJ(m)
	case wire.AttrDREQ:
		c.onDREQ(m)
	case wire.AttrDREP:
		if c.fromPeer(m) {
			c.deliver(&disconnectedMsg{})
		}
	case wire.AttrSIDRREP:
		var r wire.SIDRREP
		r.Decode(m)
		c.deliver(parseSIDRREP(&r))
	}
}

// fromPeer reports whether the sender's id is the one that the peer told.
func (c *wireCarrier) fromPeer(m *wire.MAD) bool { return c.peer != 0 && firstID(m) == c.peer }

// deliver hands a message to the ID. One that it takes is an answer to what is
// being repeated. A carrier without an ID waits for any answer.
func (c *wireCarrier) deliver(m message) {
	_, ready := m.(*readyMsg)
	if c.id == nil {
		if !ready {
			c.drop()
		}
		return
	}
	if c.muted {
		return
	}
	// A late RTU is no answer to a DREQ.
	if c.id.deliver(m) && (!ready || c.repeat.mad.Attribute() == wire.AttrREP) {
		c.repeat.stop()
	}
}

// onMRA: the peer has got what is repeated, and its application takes its time
// (IBTA vol. 1, 12.6.6).
func (c *wireCarrier) onMRA(m *wire.MAD) {
	var r wire.MRA
	r.Decode(m)
	if c.id == nil {
		return
	}
	switch attr := c.repeat.mad.Attribute(); {
	case r.Received == wire.AnsweredREQ && attr == wire.AttrREQ && c.repeat.running():
	case r.Received == wire.AnsweredREP && attr == wire.AttrREP && c.id.phase == phaseReplySent && c.fromPeer(m):
	default:
		return
	}
	wait := codeTime(r.ServiceTimeout) + lastRepeat
	c.repeat.wait(wait)
	c.id.extend(wait + requestTimeout)
}

// onREP: a connection is accepted; or the peer repeats that, because our answer
// was lost or takes long.
func (c *wireCarrier) onREP(m *wire.MAD) {
	var r wire.REP
	r.Decode(m)
	again := c.peer == r.LocalID
	switch {
	case c.id == nil:
	case c.id.phase == phaseRequestSent && c.id.ps == cm.TCP && c.accepts(&r):
		c.deliver(parseREP(&r))
		if c.id.phase == phaseEstablished {
			c.repeat.startReady() // because deliver has stopped the repeater
		}
	case again && c.ready && c.id.phase == phaseEstablished:
		c.repeat.now()
	case again && c.id.phase == phaseReplied:
		c.askForTime(wire.AnsweredREP)
	case c.id.phase == phaseOver && !again:
		c.x.mu.Lock()
		c.x.reject(c.port, c.remote, m, wire.AnsweredREP, cm.RejectInvalidCommID)
		c.x.mu.Unlock()
	}
}

// accepts notes who the peer is, and reports whether that makes sense.
func (c *wireCarrier) accepts(r *wire.REP) bool {
	if r.LocalID == 0 || r.QPN <= wire.GSIQPN || r.QPN == wire.MulticastQPN {
		return false
	}
	return c.meet(r.CAGUID, r.LocalID, r.QPN)
}

// meet records the peer's GUID, communication ID and queue pair. It returns false,
// and records nothing, if another connection of the peer has the same communication
// ID. If another connection has the same queue pair, that connection is stale, as it
// is after a request.
func (c *wireCarrier) meet(guid uint64, id, qpn uint32) bool {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	peer, queuePair := peerKey{c.remote, guid, id}, peerKey{c.remote, guid, qpn}
	if other := c.x.byPeer[peer]; other != nil && other != c {
		return false
	}
	if old := c.x.byQP[queuePair]; old != nil && old != c {
		old.leave(jobRequest, old.stale)
	}
	c.guid, c.peer, c.peerQPN = guid, id, qpn
	c.x.byPeer[peer] = c
	c.x.byQP[queuePair] = c
	return true
}

// askForTime tells the peer that its message has come, and the answer will
// later.
func (c *wireCarrier) askForTime(what wire.Answered) {
	r := wire.MRA{LocalID: c.own, RemoteID: c.peer, Received: what, ServiceTimeout: c.serviceTimeout()}
	var m wire.MAD
	r.Encode(&m, c.tid())
	c.transmit(&m)
}

// onREJ handles a REJ: the peer refuses, or gives up. A lookup is refused by
// SIDR_REP, and the protocol has no REJ for it (IBTA vol. 1, 12.11).
func (c *wireCarrier) onREJ(m *wire.MAD) {
	var r wire.REJ
	r.Decode(m)
	if c.id != nil && c.id.ps == cm.UDP {
		return
	}
	switch {
	case c.peer != 0 && r.LocalID != c.peer:
		// The peer has sent its ID before, so a REJ of the peer names it.
		return
	case r.RemoteID != c.own && (c.id == nil || c.id.phase >= phaseEstablished):
		// A connected peer knows the ID of this side, so its REJ names that.
		return
	}
	if !c.askSmaller(&r) {
		c.deliver(c.refusal(&r))
	}
}

// onDREQ: the peer wants to end the connection, of which it names our queue
// pair. One that is ended already is confirmed again.
func (c *wireCarrier) onDREQ(m *wire.MAD) {
	var r wire.DREQ
	r.Decode(m)
	if !c.fromPeer(m) || r.RemoteQPN != c.qpn {
		return
	}
	c.lastTID = m.TID()
	if c.id == nil || c.id.phase == phaseOver || c.id.phase == phaseLeaving {
		// Where both wish it, the peer may wait for an answer all the same.
		var answer wire.MAD
		c.encode(&answer, &disconnectedMsg{})
		c.transmit(&answer)
	}
	c.deliver(&disconnectMsg{})
}

// heard handles data from the peer. On the passive side the data may arrive before
// the RTU. On the active side it shows that the peer has the RTU.
func (c *wireCarrier) heard() {
	switch {
	case c.id == nil:
	case c.id.phase == phaseReplySent:
		c.prove()
		c.deliver(&readyMsg{})
	case c.ready && c.id.phase == phaseEstablished:
		c.repeat.stop()
	default:
		// The application has called Notify first.
		c.prove()
	}
}
