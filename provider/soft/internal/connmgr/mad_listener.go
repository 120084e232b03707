//go:build linux

package connmgr

import (
	"net/netip"
	"slices"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A madListener receives the requests to a listening ID on the wire path. If the listener
// has no room for a request, it drops the request, and the peer retransmits the request.
type madListener struct {
	jobTarget
	id      *id
	addr    hostport.BindAddr
	service wire.ServiceID
	addrs   madAddrs
	// watches the host's addresses; nil unless the ID is bound to a wildcard
	watch *addressWatch
	// error of watching the host's addresses, or nil
	watchErr  error
	accepting bool
	// requests in the inbox of the channel; guarded by the multiplexer's lock
	waiting  map[*incomingRequest]struct{}
	halfOpen halfOpenTable // half-open connections; guarded by the multiplexer's lock
}

// openMADListener opens the listener of an ID. If the ID is bound to a wildcard, it
// listens at the addresses of all interfaces. An error for an address is stored in the
// field addrs.
func openMADListener(i *id) *madListener {
	ch := i.ch.Load()
	l := &madListener{
		jobTarget: jobTarget{mux: ch.m.mux, ch: ch}, id: i, addr: i.reservation.Addr, accepting: true,
		waiting: make(map[*incomingRequest]struct{}), halfOpen: newHalfOpenTable(ch.m.MaxHalfOpen, ch.m.MaxHalfOpenPerAddress),
		service: wire.NewServiceID(uint16(i.ps), i.reservation.Addr.Port),
	}
	if l.addr.Wildcard() {
		l.followAddresses()
	} else {
		l.addrs.add(l, l.addr.Addr)
	}
	l.mux.mu.Lock()
	defer l.mux.mu.Unlock()
	l.mux.listeners[l.service] = append(l.mux.listeners[l.service], l)
	return l
}

// setAccepting implements listener. While the listener does not accept, it drops REQs,
// but not SIDR_REQs.
func (l *madListener) setAccepting(accept bool) { l.accepting = accept }

func (l *madListener) move(to *channel) error {
	if err := l.watch.move(l.ch, to); err != nil {
		return err
	}
	ports := l.addrs.ports()
	for i, p := range ports {
		if err := movePort(p, l.ch, to); err != nil {
			for _, done := range ports[:i] {
				_ = movePort(done, to, l.ch)
			}
			// The watch for address changes returns to the old channel.
			_ = l.watch.move(to, l.ch)
			return err
		}
	}
	l.setChannel(to)
	return nil
}

// close implements listener. It refuses the requests that the application has not fetched
// (rdma_destroy_id(3)).
func (l *madListener) close() {
	for _, p := range l.addrs.ports() {
		p.drain()
	}
	l.mux.mu.Lock()
	l.closeTarget()
	rest := slices.DeleteFunc(l.mux.listeners[l.service], func(o *madListener) bool { return o == l })
	if l.mux.listeners[l.service] = rest; len(rest) == 0 {
		delete(l.mux.listeners, l.service)
	}
	for req := range l.waiting {
		l.mux.refuse(req, &wire.REJ{Reason: uint16(cm.RejectConsumer)})
	}
	l.waiting = nil
	l.mux.mu.Unlock()
	l.watch.close(l.ch)
	l.addrs.close(l.ch)
}

// refuse refuses a request that was in the inbox. The REJ has the reason, and is not sent
// for a SIDR_REQ. refuse does nothing if an ID was made for a copy of the request. The
// caller holds the multiplexer's lock.
func (mux *madMux) refuse(req *incomingRequest, r *wire.REJ) {
	if mux.known(req) || mux.ports[req.port.local] != req.port {
		return
	}
	var out wire.MAD
	if req.isLookup() {
		encodeSIDRREP(&out, &sidrRepMsg{status: cm.SIDRReject}, req.service, req.id)
	} else {
		r.RemoteID, r.Rejected = req.id, wire.AnsweredREQ
		r.Encode(&out, req.tid)
	}
	mux.answer(req.port, req.from, &out)
}

// An incomingRequest is a received request for which no ID was made yet.
type incomingRequest struct {
	port    *madPort       // UDP port at which the request has arrived
	from    netip.Addr     // address of the peer
	m       message        // *reqMsg or *sidrReqMsg
	id      uint32         // communication ID in a REQ, or request ID in a SIDR_REQ
	tid     uint64         // transaction ID of the request
	guid    uint64         // node GUID of the peer in a REQ; 0 for a SIDR_REQ
	qpn     uint32         // queue pair of the peer in a REQ; 0 for a SIDR_REQ
	service wire.ServiceID // service ID in a SIDR_REQ, which the answer repeats

	listener *madListener // set by receiveRequest
}

func (req *incomingRequest) isLookup() bool { return req.m.kind() == kindSIDRREQ }

// receiveRequest queues a job for a request in the inbox of the listener's channel. If
// there is no room, it drops the request. The caller holds the multiplexer's lock.
func (l *madListener) receiveRequest(req *incomingRequest) {
	source := access.SourceOf(req.from)
	req.listener = l
	l.waiting[req] = struct{}{}
	if !l.hasRoom(source, req.isLookup()) ||
		!l.enqueue(job{kind: jobRequest, source: source, class: l.class(source), request: req, run: runAdmit, dropped: runDrop}) {
		req.drop()
	}
}

// class returns the class of a request of a source. The caller holds the multiplexer's
// lock.
func (l *madListener) class(source netip.Addr) requestClass {
	switch {
	case l.halfOpen.sources[source] != nil:
		return requestOpen
	case l.mux.proven.has(source, l.mux.clock()):
		return requestProven
	}
	return requestNew
}

// hasRoom reports whether receiveRequest would queue a request of a source. The caller
// holds the multiplexer's lock.
func (l *madListener) hasRoom(source netip.Addr, lookup bool) bool {
	waiting, ok := l.ch.inbox.room(source, l.class(source))
	if !ok {
		return false
	}
	return l.halfOpen.mayWait(source, waiting, !lookup && l.mux.sources.full(source), l.mux.clock())
}

func runAdmit(j *job) { j.request.admit() }
func runDrop(j *job)  { j.request.drop() }

// drop is called when the request was dropped because there is no room for it. The caller
// holds the multiplexer's lock.
func (req *incomingRequest) drop() {
	delete(req.listener.waiting, req)
	req.listener.mux.m.WireCounts.Inc(counters.CMRequestDropped)
}

// admit makes an ID for a request, unless a copy of the request already has an ID.
func (req *incomingRequest) admit() {
	l := req.listener
	l.mux.mu.Lock()
	delete(l.waiting, req)
	known := l.mux.known(req)
	l.mux.mu.Unlock()
	if known {
		return
	}
	if !l.accepting && l.id.ps == cm.TCP {
		l.mux.m.WireCounts.Inc(counters.CMRequestDropped)
		return
	}
	if !l.ch.acceptsFrom(req.from) {
		l.ch.m.LocalCounts.Inc(counters.RcvdUserErr)
		return
	}
	if !l.fitsRoute(req) {
		return
	}
	port, err := l.mux.open(req.port.local, l.ch)
	if err != nil {
		return
	}
	c := &madConn{jobTarget: jobTarget{mux: l.mux, ch: l.ch}, port: port, remote: req.from, service: req.service, listener: l, addrValidation: addrValidation{received: 1}}
	c.register()
	recorded := true
	if req.isLookup() {
		c.registerLookup(req)
	} else {
		recorded = c.recordPeer(req.guid, req.id, req.qpn)
	}
	if recorded && c.addHalfOpen() {
		c.id = l.id.incoming(req.m, c)
	}
	if c.id == nil {
		c.release()
	}
}

// fitsRoute refuses a REQ if the interface or the route of this side does not allow
// packets of its path MTU. Finding the route takes several system calls, so only
// requests that are admitted get here.
func (l *madListener) fitsRoute(req *incomingRequest) bool {
	r, ok := req.m.(*reqMsg)
	if !ok {
		return true
	}
	most := req.port.mtuTo(req.from)
	if r.mtu <= most {
		return true
	}
	refusal := wire.REJ{Reason: uint16(cm.RejectInvalidMTU)}
	setMTUInfo(&refusal, most)
	l.mux.mu.Lock()
	defer l.mux.mu.Unlock()
	l.mux.refuse(req, &refusal)
	return false
}

// known reports whether there is already a connection for a request or for a copy of it.
// The caller holds the multiplexer's lock.
func (mux *madMux) known(req *incomingRequest) bool {
	if req.isLookup() {
		return mux.lookups[lookupKey{req.from, req.id}] != nil
	}
	return mux.byPeer[peerKey{req.from, req.guid, req.id}] != nil || mux.byQP[peerKey{req.from, req.guid, req.qpn}] != nil
}

var _ listener = (*madListener)(nil)
