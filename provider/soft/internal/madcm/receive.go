//go:build linux

package madcm

import (
	"errors"
	"fmt"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// enqueueMAD queues a job that calls handleMAD for a datagram. The caller holds the
// multiplexer's lock. It can not call handleMAD directly, because handleMAD takes the
// same lock.
func (c *conn) enqueueMAD(m *wire.MAD) {
	c.received++
	c.enqueue(job{kind: jobMessage, conn: c, mad: *m, run: func(j *job) { j.conn.handleMAD(&j.mad) }})
}

// enqueueRequest queues the job of a request that belongs to this connection. The caller
// holds the multiplexer's lock.
func (c *conn) enqueueRequest(run func(*job)) {
	c.enqueue(job{kind: jobRequest, conn: c, source: access.SourceOf(c.remote), run: run})
}

// handleMAD handles a datagram after the multiplexer has checked its address and
// communication ID. It drops messages that the state does not allow.
func (c *conn) handleMAD(m *wire.MAD) {
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

// fromPeer reports whether the sender's communication ID in the datagram is c.peerID.
func (c *conn) fromPeer(m *wire.MAD) bool { return c.peerID != 0 && firstID(m) == c.peerID }

// deliver passes a message to the ID. If the ID accepts the message, the retransmission
// stops. In the state connOrphan, any message except an RTU ends the connection.
func (c *conn) deliver(m connmgr.Message) {
	_, isRTU := m.(*connmgr.RTU)
	switch c.state {
	case connAnswering:
		return
	case connOrphan:
		if !isRTU {
			c.release()
		}
		return
	}
	// An RTU answers a REP. It does not answer a DREQ.
	if c.id.Deliver(m) && (!isRTU || c.retransmit.mad.Attribute() == wire.AttrREP) {
		c.stopRetransmission()
	}
}

// onConfirmation handles an RTU or a DREP.
func (c *conn) onConfirmation(m *wire.MAD) {
	confirmation := connmgr.Message(&connmgr.RTU{})
	if m.Attribute() == wire.AttrDREP {
		confirmation = &connmgr.DREP{}
	}
	if c.fromPeer(m) {
		c.deliver(confirmation)
	}
}

// onMRA handles an MRA. The MRA says that the peer has got the message, and that the
// peer's application needs more time (IBTA vol. 1, 12.6.6).
func (c *conn) onMRA(m *wire.MAD) {
	var r wire.MRA
	r.Decode(m)
	if c.state == connOrphan {
		return
	}
	switch attr := c.retransmit.mad.Attribute(); {
	case r.Received == wire.AnsweredREQ && attr == wire.AttrREQ && c.retransmit.running():
	case r.Received == wire.AnsweredREP && attr == wire.AttrREP && c.id.State() == connmgr.StateREPSent && c.fromPeer(m):
	default:
		return
	}
	wait := codeTime(r.ServiceTimeout) + maxInterval
	c.retransmitAfter(wait)
	c.id.ExtendTimer(wait + connmgr.RequestTimeout)
}

// onREP handles a REP or a copy of a REP. The peer retransmits its REP until the RTU
// arrives.
func (c *conn) onREP(m *wire.MAD) {
	var r wire.REP
	r.Decode(m)
	duplicate := c.peerID == r.LocalID
	switch {
	case c.state == connOrphan:
	case c.id.State() == connmgr.StateREQSent && c.id.PortSpace() == cm.TCP && c.acceptREP(&r):
		c.deliver(parseREP(&r))
		if c.id.State() == connmgr.StateEstablished {
			c.retransmitRTU() // deliver has stopped the retransmission of the REQ.
		}
	case duplicate && c.retransmit.hasRTU() && c.id.State() == connmgr.StateEstablished:
		c.repeat()
	case duplicate && c.id.State() == connmgr.StateREPReceived:
		c.sendMRA(wire.AnsweredREP)
	case c.id.State() == connmgr.StateEnded && !duplicate:
		c.mux.mu.Lock()
		c.mux.reject(c.port, c.remote, m, wire.AnsweredREP, cm.RejectInvalidCommID)
		c.mux.mu.Unlock()
	}
}

// acceptREP checks a REP and calls recordPeer. It returns false if the REP is invalid.
func (c *conn) acceptREP(r *wire.REP) bool {
	if r.LocalID == 0 || r.QPN <= wire.GSIQPN || r.QPN == wire.MulticastQPN {
		return false
	}
	return c.recordPeer(r.CAGUID, r.LocalID, r.QPN)
}

// recordPeer records the GUID, the communication ID and the queue pair of the peer. It
// returns false if another connection already has the same communication ID of the peer.
// Another connection with the same queue pair of the peer ends as stale.
func (c *conn) recordPeer(guid uint64, id, qpn uint32) bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	peer, queuePair := peerKey{c.remote, guid, id}, peerKey{c.remote, guid, qpn}
	if other := c.mux.byPeer[peer]; other != nil && other != c {
		return false
	}
	if old := c.mux.byQP[queuePair]; old != nil && old != c {
		old.enqueueRequest(runStale)
	}
	c.peerGUID, c.peerID, c.peerQPN = guid, id, qpn
	c.mux.byPeer[peer] = c
	c.mux.byQP[queuePair] = c
	return true
}

// sendMRA tells the peer that its message has arrived, and that the application of this
// side needs more time.
func (c *conn) sendMRA(what wire.Answered) {
	r := wire.MRA{LocalID: c.ownID, RemoteID: c.peerID, Received: what, ServiceTimeout: c.serviceTimeout()}
	var m wire.MAD
	r.Encode(&m, c.requestTID())
	c.transmit(&m)
}

// onREJ handles a REJ: the peer refuses a message or cancels its request.
func (c *conn) onREJ(m *wire.MAD) {
	var r wire.REJ
	r.Decode(m)
	if c.state != connOrphan && c.id.PortSpace() == cm.UDP {
		return
	}
	switch {
	case c.peerID != 0 && r.LocalID != c.peerID:
		// The peer has sent messages with its communication ID, so a REJ without this ID
		// comes from another sender.
		return
	case r.RemoteID != c.ownID && (c.state == connOrphan || c.id.State() >= connmgr.StateEstablished):
		// A REJ without the communication ID of this side is from another sender, because the
		// peer knows this ID.
		return
	}
	if !c.retryWithSmallerMTU(&r) {
		c.deliver(c.refusal(&r))
	}
}

// onDREQ handles a DREQ for the local queue pair. It answers at once if the connection
// has ended, or if this side has sent a DREQ too.
func (c *conn) onDREQ(m *wire.MAD) {
	var r wire.DREQ
	r.Decode(m)
	if !c.fromPeer(m) || r.RemoteQPN != c.qpn {
		return
	}
	c.lastTID = m.TID()
	if c.state == connOrphan || c.id.State() == connmgr.StateEnded || c.id.State() == connmgr.StateDREQSent {
		// Without an answer, the peer would retransmit its DREQ.
		var answer wire.MAD
		c.encode(&answer, &connmgr.DREP{})
		c.transmit(&answer)
	}
	c.deliver(parseDREQ(&r))
}

// DataHeard implements connmgr.DataHearer. The first data of the peer proves that the
// peer is connected (IBTA vol. 1, 12.9.7.2).
func (c *conn) DataHeard() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.enqueue(job{kind: jobInternal, conn: c, run: func(j *job) { j.conn.peerSentData() }})
}

// peerSentData handles the first data of the peer. On the passive side, the data confirms
// the REP. On the active side, it confirms the RTU.
func (c *conn) peerSentData() {
	switch {
	case c.state == connOrphan:
	case c.id.State() == connmgr.StateREPSent:
		c.validate()
		c.deliver(&connmgr.RTU{})
	case c.retransmit.hasRTU() && c.id.State() == connmgr.StateEstablished:
		c.stopRetransmission()
	default:
		// Notify has established the connection without validating the address.
		c.validate()
	}
}

// The passive side can refuse the path MTU of a REQ (IBTA vol. 1, 12.6.7.2, reason 26).
// The active side then sends another REQ with a smaller MTU.

// refusesMTU reports whether a REJ refuses the path MTU in the last REQ of this
// connection.
func (c *conn) refusesMTU(r *wire.REJ) bool {
	return cm.RejectReason(r.Reason) == cm.RejectInvalidMTU && c.state != connOrphan &&
		c.id.State() == connmgr.StateREQSent && c.retransmit.mad.Attribute() == wire.AttrREQ
}

// retryWithSmallerMTU handles a REJ that refuses the path MTU: it sends another REQ and
// returns true. This REQ has the path MTU that the REJ names, or else the next smaller
// one. retryWithSmallerMTU returns false for another REJ, and if there is no smaller
// path MTU.
func (c *conn) retryWithSmallerMTU(refusal *wire.REJ) bool {
	if !c.refusesMTU(refusal) || c.id.PathMTU() <= minPathMTU {
		return false
	}
	mtu := c.id.PathMTU() - 1
	if named := verbs.MTU(refusal.Info[0]); refusal.InfoLength == 1 && named >= minPathMTU && named < mtu {
		mtu = named
	}
	c.id.SetPathMTU(mtu)
	var r wire.REQ
	r.Decode(&c.retransmit.mad)
	c.changeID()
	r.LocalID, r.MTU = c.ownID, uint8(mtu)
	c.stopRetransmission()
	r.Encode(&c.retransmit.mad, tid(c.ownID))
	c.repeat()
	c.retransmitRequest()
	return true
}

// changeID gives the connection a new communication ID.
func (c *conn) changeID() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	delete(c.mux.conns, c.ownID)
	c.mux.register(c)
}

// errOwnPort is the cause of a refusal if the remote address belongs to this device
// itself.
var errOwnPort = errors.New("this device itself has the UDP port of that address; is the listener on the local path only?")

// refusal decodes a REJ. It sets the field Cause of the result to nil, to errOwnPort, or
// to an error that names the path MTUs that were tried.
func (c *conn) refusal(r *wire.REJ) *connmgr.REJ {
	m := parseREJ(r)
	switch {
	case c.refusesMTU(r):
		m.Cause = fmt.Errorf("the peer takes no path MTU from %d down to %d bytes", c.largestMTU.Bytes(), c.id.PathMTU().Bytes())
	case m.Reason == cm.RejectInvalidServiceID && c.remote == c.port.local:
		m.Cause = errOwnPort
	}
	return m
}
