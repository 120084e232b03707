//go:build linux

package connmgr

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// onREQ refuses a connection request, or passes it to the listener. The REQ may also be
// a copy of an earlier one, or name the queue pair of an older connection.
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
			// The peer uses the queue pair of an older connection (IBTA vol. 1,
			// 12.9.8.3.1). The older connection ends, so a later request succeeds.
			old.enqueue(jobRequest, old.stale)
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
	if reason == 0 && m.mtu > port.mtuTo(from) {
		// Packets as long as this path MTU would not reach this host or the peer.
		reason = cm.RejectInvalidMTU
	}
	if reason != 0 {
		mux.reject(port, from, mad, wire.AnsweredREQ, reason)
		return
	}
	l.enqueueRequest(&incomingRequest{port: port, from: from, guid: r.CAGUID, id: r.LocalID, tid: mad.TID(), qpn: r.QPN, m: m})
}

// acceptingListener returns the listener for a request, or the reason to refuse the
// request.
func (mux *madMux) acceptingListener(service wire.ServiceID, to netip.AddrPort) (*madListener, cm.RejectReason) {
	l, otherAddr := mux.listenerFor(service, to)
	switch {
	case l != nil:
		return l, 0
	case otherAddr:
		// A listener has the port on another address. The kernel gives the same reason.
		return nil, cm.RejectConsumer
	}
	return nil, cm.RejectInvalidServiceID
}

// duplicateREQ handles a copy of a request. Each copy allows more messages to a
// half-open peer; see maySend.
func (c *madConn) duplicateREQ() {
	c.received++
	c.enqueue(jobRequest, c.answerDuplicate)
}

// answerDuplicate answers a copy of a request. If the application has answered, the
// answer is sent again. Otherwise an MRA is sent, or nothing for a lookup.
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

// stale ends a connection because its peer requests another connection with the same
// queue pair. A host that can send from the peer's address can forge that request.
func (c *madConn) stale() {
	switch c.state {
	case madOrphan:
		// An orphan ends at once, because the peer would not answer its DREQ.
		c.release()
	case madDelivering:
		c.id.connectionStale()
	}
}

// onSIDRREQ refuses a lookup, or passes it to the listener. The SIDR_REQ may also be a
// copy of an earlier one.
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
	l.enqueueRequest(&incomingRequest{port: port, from: from, id: r.RequestID, m: m, service: r.ServiceID})
}

// registerLookup records a lookup, so that copies of it are recognized.
func (c *madConn) registerLookup(req *incomingRequest) {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.peerID = req.id
	c.mux.lookups[lookupKey{req.from, req.id}] = c
}
