//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// onREQ passes a connection request to the listener, or refuses it. If the REQ is a copy
// of an earlier one, the earlier answer is repeated. If the REQ names the queue pair of
// an older connection, that connection ends as stale.
func (mux *madMux) onREQ(mad *wire.MAD, port *madPort, from netip.Addr) {
	var r wire.REQ
	r.Decode(mad)
	key := peerKey{from, r.CAGUID, r.LocalID}
	if c := mux.byPeer[key]; c != nil {
		c.duplicateREQ()
		return
	}
	if refusal := mux.refused.answer(key, mux.clock()); refusal != nil {
		mux.answer(port, from, refusal)
		return
	}
	m, reason := parseREQ(&r, from, port.local)
	if reason == 0 {
		if old := mux.byQP[peerKey{from, r.CAGUID, r.QPN}]; old != nil {
			// The peer has another connection with this queue pair (IBTA vol. 1,
			// 12.9.8.3.1). That connection ends, so that a later request of the peer can
			// succeed.
			old.enqueueRequest(runStale)
			reason = cm.RejectStale
		}
	}
	var l *madListener
	if reason == 0 {
		l, reason = mux.acceptingListener(r.ServiceID, m.dst)
	}
	if reason == 0 && mux.sources.fullForGood(access.SourceOf(from)) {
		mux.m.WireCounts.Inc(counters.CMAddressFull)
		reason = cm.RejectNoResources
	}
	if reason == 0 && mux.m.Errors.Refuses(access.RemoteSource(from)) {
		reason = cm.RejectNoResources
	}
	if reason != 0 {
		mux.reject(port, from, mad, wire.AnsweredREQ, reason)
		return
	}
	l.receiveRequest(&incomingRequest{port: port, from: from, guid: r.CAGUID, id: r.LocalID, tid: mad.TID(), qpn: r.QPN, m: m})
}

// acceptingListener returns the listener for a request, or the reason to refuse it.
func (mux *madMux) acceptingListener(service wire.ServiceID, to netip.AddrPort) (*madListener, cm.RejectReason) {
	l, otherAddr := mux.listenerFor(service, to)
	switch {
	case l != nil:
		return l, 0
	case otherAddr:
		// The listener has this port at another address. The kernel refuses such a REQ
		// with the same reason.
		return nil, cm.RejectConsumer
	}
	return nil, cm.RejectInvalidServiceID
}

// duplicateREQ handles a copy of a request. Each copy raises the number of messages that
// may be sent to a half-open peer; see maySend.
func (c *madConn) duplicateREQ() {
	c.received++
	c.enqueueRequest(func(j *job) { j.conn.answerDuplicate() })
}

// answerDuplicate answers a copy of a request. If this side has already answered the
// request, answerDuplicate repeats the answer. Otherwise answerDuplicate answers a REQ
// with an MRA, and does not answer a SIDR_REQ.
func (c *madConn) answerDuplicate() {
	if c.state == madOrphan || c.id.active {
		return
	}
	switch attr := c.retransmit.mad.Attribute(); {
	case c.id.state == stateREQReceived && c.id.ps == cm.TCP:
		c.sendMRA(wire.AnsweredREQ)
	case c.id.state == stateREPSent:
		c.retransmit.sendNow()
		c.retransmit.resume()
	case attr == wire.AttrREJ, attr == wire.AttrSIDRREP:
		c.retransmit.sendNow()
	}
}

// runStale calls the method stale of the job's connection.
func runStale(j *job) { j.conn.stale() }

// stale ends a connection because its peer has used the same queue pair in another
// request. A host that can send from the peer's address can forge such a request.
func (c *madConn) stale() {
	switch c.state {
	case madOrphan:
		// The peer will not answer the DREQ of this orphan.
		c.release()
	case madDelivering:
		c.id.connectionStale()
	}
}

// onSIDRREQ passes a SIDR request to the listener, or refuses it. If the SIDR_REQ is a
// copy of an earlier one, the earlier answer is repeated.
func (mux *madMux) onSIDRREQ(mad *wire.MAD, port *madPort, from netip.Addr) {
	var r wire.SIDRREQ
	r.Decode(mad)
	if c := mux.lookups[lookupKey{from, r.RequestID}]; c != nil {
		c.duplicateREQ()
		return
	}
	m, status := parseSIDRREQ(&r, from, port.local)
	var l *madListener
	if status == cm.SIDROK {
		var otherAddr bool
		if l, otherAddr = mux.listenerFor(r.ServiceID, m.dst); otherAddr {
			status = cm.SIDRReject
		} else if l == nil {
			status = cm.SIDRUnsupported
		}
	}
	if status != cm.SIDROK {
		var out wire.MAD
		encodeSIDRREP(&out, &sidrRepMsg{status: status}, r.ServiceID, r.RequestID)
		mux.answer(port, from, &out)
		return
	}
	l.receiveRequest(&incomingRequest{port: port, from: from, id: r.RequestID, m: m, service: r.ServiceID})
}

// registerLookup adds a SIDR request to the multiplexer. The multiplexer recognizes
// copies of a registered request.
func (c *madConn) registerLookup(req *incomingRequest) {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.peerID = req.id
	c.mux.lookups[lookupKey{req.from, req.id}] = c
}
