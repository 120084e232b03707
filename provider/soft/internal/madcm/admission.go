//go:build linux

package madcm

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// The way of a REQ or a SIDR_REQ:
//
//  1. Wants decides whether the datagram is worth its check. Nothing is changed.
//  2. onRequest finds who gets the valid request: a connection that it concerns, or a
//     listener. There it waits in the inbox of the channel.
//  3. On the channel, admit decides about a request to a listener, under one lock, and
//     makes the connection and the ID. The new ID queues the event ConnectRequest.

// A requestKey has the fields of a request that say whom it concerns.
type requestKey struct {
	// communication ID of the peer. For a SIDR_REQ, the request ID, which the peer has chosen
	// at random, without GUID.
	peer      peerKey
	queuePair peerKey // queue pair of the peer; the zero value in a SIDR_REQ
	service   wire.ServiceID
	lookup    bool // true for a SIDR_REQ
}

// keyOf reads the key of the request m, which may be invalid. The offsets are those in
// IBTA vol. 1, 12.6.5 and 12.11.1.
func keyOf(m *wire.MAD, from netip.Addr) requestKey {
	data := m[wire.MADDataOffset:]
	k := requestKey{
		peer:    peerKey{from: from, number: firstID(m)},
		service: wire.ServiceID(binary.BigEndian.Uint64(data[8:])), lookup: m.Attribute() == wire.AttrSIDRREQ,
	}
	if !k.lookup {
		k.peer.guid = binary.BigEndian.Uint64(data[16:])
		k.queuePair = peerKey{from, k.peer.guid, binary.BigEndian.Uint32(data[32:]) >> 8}
	}
	return k
}

// An incomingRequest is a received request that waits in the inbox of a channel.
type incomingRequest struct {
	requestKey
	mad      wire.MAD
	port     *port     // UDP port at which the request has arrived
	listener *listener // listener that gets the request; nil if it concerns a connection
}

// copied returns the connection that an earlier copy of the request has made, or nil. The
// caller holds the multiplexer's lock.
func (mux *Mux) copied(k *requestKey) *conn {
	if k.lookup {
		return mux.lookups[k.peer]
	}
	return mux.byPeer[k.peer]
}

// concerned returns the connection that a request concerns, or nil: the request is a copy
// of the connection's request, or names its queue pair.
func (mux *Mux) concerned(k *requestKey) *conn {
	if c := mux.copied(k); c != nil || k.lookup {
		return c
	}
	return mux.byQP[k.queuePair]
}

// Wants implements udp.GSISink. It returns false for a request to a listener that has no
// room for its source, and for a request that would be refused without an answer because
// of the answerLimit. Nothing in the packet was checked yet, so Wants changes nothing.
//
// All other messages pass, because they cost little more than the search for their
// connection. So do requests that concern a connection: the peer may not have got the
// answer to the first copy, or may use its queue pair again.
func (mux lockedMux) Wants(p wire.Packet, from, to netip.Addr) bool {
	m, err := wire.DecodeMAD(p.Payload())
	if err != nil || p.Opcode() != wire.UDSendOnly || !isRequest(m) {
		return true
	}
	k := keyOf(m, from)
	return mux.hasRoom(&k, to) || mux.concerned(&k) != nil
}

// hasRoom reports whether a request at the local address to may wait, or may be refused.
func (mux *Mux) hasRoom(k *requestKey, to netip.Addr) bool {
	l, _ := mux.listenerFor(k.service, to)
	source := access.SourceOf(k.peer.from)
	if l == nil || !k.lookup && mux.sources.fullForGood(source) {
		return !mux.limit.exhausted(k.peer.from, mux.clock())
	}
	return l.hasRoom(source, k.lookup)
}

// onRequest passes a REQ or a SIDR_REQ to the connection that it concerns, or to the
// listener. If there is neither, it refuses the request.
func (mux *Mux) onRequest(m *wire.MAD, port *port, from netip.Addr) {
	k := keyOf(m, from)
	if c := mux.copied(&k); c != nil {
		c.duplicateREQ()
		return
	}
	req := &incomingRequest{requestKey: k, mad: *m, port: port}
	if !k.lookup {
		if c := mux.byQP[k.queuePair]; c != nil {
			c.enqueue(job{kind: jobRequest, conn: c, source: access.SourceOf(from), request: req, run: runReused})
			return
		}
	}
	l, otherAddr := mux.listenerFor(k.service, port.local)
	switch {
	case l != nil:
		l.wait(req)
	case mux.parse(req) == nil:
	case otherAddr:
		// The listener has this port at another address. The kernel refuses such a request
		// with the same reason.
		mux.refuse(req, cm.RejectConsumer, cm.SIDRReject)
	default:
		mux.refuse(req, cm.RejectInvalidServiceID, cm.SIDRUnsupported)
	}
}

// wait queues a request in the inbox of the listener's channel. The caller holds the
// multiplexer's lock, and hasRoom has found room.
func (l *listener) wait(req *incomingRequest) {
	source := access.SourceOf(req.peer.from)
	req.listener = l
	l.arrived++
	l.waiting[req] = l.arrived
	if !l.enqueue(job{kind: jobRequest, source: source, class: l.class(source), request: req, dropped: runDrop}) {
		req.drop()
	}
}

// class returns the class of a request of a source. The caller holds the multiplexer's
// lock.
func (l *listener) class(source netip.Addr) requestClass {
	switch {
	case l.halfOpen.sources[source] != nil:
		return requestOpen
	case l.mux.proven.has(source, l.mux.clock()):
		return requestProven
	}
	return requestNew
}

// hasRoom reports whether a request of a source may wait. The caller holds the
// multiplexer's lock.
func (l *listener) hasRoom(source netip.Addr, lookup bool) bool {
	waiting, ok := l.ch.inbox.room(source, l.class(source))
	if !ok {
		return false
	}
	return l.halfOpen.mayWait(source, waiting, !lookup && l.mux.sources.full(source), l.mux.clock())
}

func runDrop(j *job) { j.request.drop() }

// drop is called when the request was dropped because there is no room for it. The caller
// holds the multiplexer's lock.
func (req *incomingRequest) drop() {
	delete(req.listener.waiting, req)
	req.listener.mux.Counts.Inc(counters.CMRequestDropped)
}

// admit makes an ID for the request of the job j, which runs on the channel ch, unless the
// request is refused or dropped.
func (req *incomingRequest) admit(ch *channel, j *job) {
	l := req.listener
	c, m := l.decide(ch, j)
	if c == nil {
		return
	}
	if c.id = l.id.Incoming(m, c); c.id == nil {
		c.release()
	}
}

// decide decides about the request of the job j, with one take of the multiplexer's lock.
// If it admits the request, it returns the decoded request and the new connection, which
// is registered. Otherwise it returns nil, after it has refused or dropped the request:
//
//   - A copy of the request was admitted meanwhile, or a connection with the same queue
//     pair of the peer has begun. The peer retransmits the request.
//   - The request is invalid, or a copy of it was refused before; see parse.
//   - The source has too many connections that can not be evicted, or its earlier access
//     errors make it wait; see access.ErrorLimit.
//   - The backlog is full. This holds for a SIDR_REQ only in ID.Incoming, which answers it.
//   - The source is this host, so the request has to use the local path.
//   - The path MTU is too large for the interface or the route.
//   - There is no room in the table of half-open connections. A victim of the request is
//     evicted; see halfOpenTable.room.
func (l *listener) decide(ch *channel, j *job) (*conn, connmgr.Message) {
	req, mux := j.request, l.mux
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if !l.onLockedChannel(ch, j) {
		return nil, nil
	}
	delete(l.waiting, req)
	if mux.concerned(&req.requestKey) != nil {
		return nil, nil
	}
	m := mux.parse(req)
	if m == nil || !l.allows(req, m) {
		return nil, nil
	}
	port, err := mux.openLocked(req.port.local, l.ch)
	if err != nil {
		return nil, nil
	}
	c := &conn{jobTarget: jobTarget{mux: mux, ch: l.ch}, port: port, remote: req.peer.from, listener: l, addrValidation: addrValidation{received: 1}}
	c.retransmit.timer.Owner = c
	if !c.addHalfOpen(req.lookup) {
		l.ch.leavePort(port)
		return nil, nil
	}
	mux.register(c)
	c.peerGUID, c.peerID = req.peer.guid, req.peer.number
	if req.lookup {
		c.service = req.service
		mux.lookups[req.peer] = c
	} else {
		c.peerQPN = req.queuePair.number
		mux.byPeer[req.peer], mux.byQP[req.queuePair] = c, c
	}
	return c, m
}

// parse decodes a request. If it is invalid, or a copy of a refused one, parse answers it
// and returns nil. The caller holds the multiplexer's lock.
func (mux *Mux) parse(req *incomingRequest) connmgr.Message {
	if req.lookup {
		var r wire.SIDRREQ
		r.Decode(&req.mad)
		m, status := parseSIDRREQ(&r, req.peer.from, req.port.local)
		if status != cm.SIDROK {
			mux.refuse(req, 0, status)
			return nil
		}
		return m
	}
	if refusal := mux.refused.answer(req.peer, mux.clock()); refusal != nil {
		mux.answer(req.port, req.peer.from, refusal)
		return nil
	}
	var r wire.REQ
	r.Decode(&req.mad)
	m, reason := parseREQ(&r, req.peer.from, req.port.local)
	if reason != 0 {
		mux.refuse(req, reason, 0)
		return nil
	}
	return m
}

// refuse refuses a request: a REQ with a REJ that has the reason, and a SIDR_REQ with a
// SIDR_REP that has the status. The caller holds the multiplexer's lock.
func (mux *Mux) refuse(req *incomingRequest, reason cm.RejectReason, status cm.SIDRStatus) {
	if !req.lookup {
		mux.reject(req.port, req.peer.from, &req.mad, wire.AnsweredREQ, reason)
		return
	}
	var out wire.MAD
	encodeSIDRREP(&out, &connmgr.SIDRREP{Status: status}, req.service, req.peer.number)
	mux.answer(req.port, req.peer.from, &out)
}

// allows reports whether the listener accepts the request m of a source. If not, it
// refuses or drops the request. Finding the route takes several system calls, so it comes
// last.
func (l *listener) allows(req *incomingRequest, m connmgr.Message) bool {
	mux, from := l.mux, req.peer.from
	r, isREQ := m.(*connmgr.REQ)
	switch {
	case isREQ && mux.sources.fullForGood(access.SourceOf(from)):
		mux.Counts.Inc(counters.CMAddressFull)
		mux.refuse(req, cm.RejectNoResources, 0)
	case isREQ && mux.Errors.Refuses(access.RemoteSource(from)):
		mux.refuse(req, cm.RejectNoResources, 0)
	case isREQ && !l.accepting:
		mux.Counts.Inc(counters.CMRequestDropped)
	case !l.ch.acceptsFrom(from):
		mux.LocalCounts.Inc(counters.RcvdUserErr)
	case isREQ && r.MTU > req.port.mtuTo(from):
		mux.refuse(req, cm.RejectInvalidMTU, 0)
	default:
		return true
	}
	return false
}

// duplicateREQ handles a copy of a request. Each copy raises the number of messages that
// may be sent to a half-open peer; see maySend.
func (c *conn) duplicateREQ() {
	c.received++
	c.enqueueRequest(func(j *job) { j.conn.answerDuplicate() })
}

// answerDuplicate answers a copy of a request. If this side has already answered the
// request, answerDuplicate repeats the answer. Otherwise answerDuplicate answers a REQ
// with an MRA, and does not answer a SIDR_REQ.
func (c *conn) answerDuplicate() {
	if c.state == connOrphan || c.id.Active() {
		return
	}
	switch attr := c.retransmit.mad.Attribute(); {
	case c.id.State() == connmgr.StateREQReceived && c.id.PortSpace() == cm.TCP:
		c.sendMRA(wire.AnsweredREQ)
	case c.id.State() == connmgr.StateREPSent:
		c.repeat()
		c.resumeRetransmission()
	case attr == wire.AttrREJ, attr == wire.AttrSIDRREP:
		c.repeat()
	}
}

func runReused(j *job) { j.conn.reused(j.request) }

// reused handles a REQ that names the queue pair of this connection, and is no copy of its
// request (IBTA vol. 1, 12.9.8.3.1). If the REQ is valid, the connection ends as stale, so
// that a later request of the peer can succeed.
func (c *conn) reused(req *incomingRequest) {
	c.mux.mu.Lock()
	valid := c.mux.parse(req) != nil
	if valid {
		c.mux.refuse(req, cm.RejectStale, 0)
	}
	c.mux.mu.Unlock()
	if valid {
		c.stale()
	}
}

// runStale calls the method stale of the job's connection.
func runStale(j *job) { j.conn.stale() }

// stale ends a connection because its peer has used the same queue pair in another
// request. A host that can send from the peer's address can forge such a request.
func (c *conn) stale() {
	switch c.state {
	case connOrphan:
		// The peer will not answer the DREQ of this orphan.
		c.release()
	case connDelivering:
		c.id.Stale()
	}
}

var _ udp.GSISink = lockedMux{}

// refusedRequests stores the answers to recently refused requests. If a copy of a refused
// request arrives, the stored answer is sent again, and the application does not get the
// copy.
//
// A keyed hash of the source selects the bucket in which an answer is stored. Therefore a
// flood from few sources replaces only the answers in a few buckets.
type refusedRequests struct {
	seed    maphash.Seed
	buckets [refusedBuckets]refusedBucket
}

// At most 512 answers of 256 bytes are stored. The numbers are arbitrary.
const (
	refusedBuckets   = 64
	refusedPerBucket = 8
)

type refusedBucket struct {
	requests []refusedRequest
	next     int // index of the entry that is replaced next; used when the bucket is full
}

type refusedRequest struct {
	key    peerKey
	until  time.Time
	answer wire.MAD
}

func newRefusedRequests() *refusedRequests { return &refusedRequests{seed: maphash.MakeSeed()} }

func (r *refusedRequests) bucket(key peerKey) *refusedBucket {
	return &r.buckets[hashSource(r.seed, key.from)%refusedBuckets]
}

// add stores the answer to a refused request. The answer expires after RequestTimeout,
// when the peer no longer retransmits the request. The number in the parameter key is
// the peer's communication ID.
func (r *refusedRequests) add(key peerKey, answer *wire.MAD, now time.Time) {
	b := r.bucket(key)
	refused := refusedRequest{key: key, until: now.Add(connmgr.RequestTimeout), answer: *answer}
	if len(b.requests) < refusedPerBucket {
		b.requests = append(b.requests, refused)
		return
	}
	b.requests[b.next] = refused
	b.next = (b.next + 1) % refusedPerBucket
}

// answer returns the stored answer to a request, or nil.
func (r *refusedRequests) answer(key peerKey, now time.Time) *wire.MAD {
	b := r.bucket(key)
	for i := range b.requests {
		if refused := &b.requests[i]; refused.key == key && now.Before(refused.until) {
			return &refused.answer
		}
	}
	return nil
}
