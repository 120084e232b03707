//go:build linux

package madcm

import (
	"container/heap"
	"container/list"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A halfOpen is the entry of a connection or SIDR request in a halfOpenTable. The address
// of the peer may be forged. The multiplexer's lock guards the entry.
type halfOpen struct {
	c      *conn
	proven bool            // true if the source was in provenSources when the request arrived
	since  time.Time       // time at which the request arrived
	source *halfOpenSource // source of the request; nil if the halfOpen is in no table
	// inSource is the element of this halfOpen in halfOpenSource.byAge. inTable is its
	// element in halfOpenTable.byAge.
	inSource, inTable *list.Element
}

// A halfOpenSource has the half-open connections of one source; see access.SourceOf.
type halfOpenSource struct {
	key   netip.Addr // address or network prefix of the source
	count int        // length of byAge
	// half-open connections of the source as *halfOpen, the oldest first; never empty
	byAge list.List
	index int // index of the source in halfOpenTable.busiest
}

// A halfOpenTable limits the half-open connections of one listener, in total and for each
// source. Half-open SIDR requests count as connections.
type halfOpenTable struct {
	// max is the largest number of connections in the table. maxPerSource is the largest
	// number of connections of one source.
	max, maxPerSource int
	total             int                            // number of connections in the table
	sources           map[netip.Addr]*halfOpenSource // sources with connections in the table, by halfOpenSource.key
	// sources with connections in the table; the source with the most connections is first
	busiest busyHeap[*halfOpenSource]
	// evicting is the number of connections in the state addrEvicting.
	evicting int
	// all half-open connections of the table as *halfOpen, the oldest first
	byAge list.List
}

// The connections of a source are a burst if there are at most burstSize of them and all
// are younger than burstTime; see room(). Both numbers are arbitrary.
const (
	burstSize = 16
	burstTime = 250 * time.Millisecond
)

// graceTime is the age up to which a connection is protected against eviction by a
// request of the same source. The number is arbitrary.
const graceTime = time.Second

func newHalfOpenTable(most, perSource int) halfOpenTable {
	return halfOpenTable{
		max: most, maxPerSource: perSource,
		sources: make(map[netip.Addr]*halfOpenSource),
	}
}

// room reports whether a request can be accepted. It also returns the half-open
// connection to evict, or nil. The first rule that applies decides:
//
//   - If too many connections still wait for their eviction, the request is dropped.
//   - If sourceFull is true, the source has too many connections, half-open or not. The
//     oldest half-open connection of the source is evicted. The request is dropped, but
//     will find room when it is retransmitted.
//   - If the source has maxPerSource half-open connections, the oldest of them is
//     evicted. The oldest one is also evicted if the table is full, and no other source
//     has more connections than this source would have with the new connection.
//   - If the table is full, the oldest connection of the source with the most connections
//     is evicted. But if the connections of that source are a burst, the oldest
//     connection in the table is evicted.
//
// The second and the third rule evict a connection only if it is older than graceTime.
// Otherwise the connection stays, and the request is dropped.
func (t *halfOpenTable) room(source netip.Addr, sourceFull bool, now time.Time) (victim *halfOpen, ok bool) {
	return t.roomBeside(source, 0, t.total >= t.max, sourceFull, now)
}

// mayWait reports whether a received request may be queued, and wait until room()
// decides about it. The parameter waiting is the number of requests of its source that
// wait already. In a flood, mayWait drops nearly all requests that room() would drop
// later at a higher cost:
//
//   - The table counts as full when an eighth of it is free. Otherwise each connection of
//     others that completes would let a request of every source of the flood wait.
//   - Requests that wait count as connections of their source. A request that has to
//     evict a connection of its own source does not wait behind another one.
func (t *halfOpenTable) mayWait(source netip.Addr, waiting int, sourceFull bool, now time.Time) bool {
	victim, ok := t.roomBeside(source, waiting, t.total >= t.max-t.max/8, sourceFull, now)
	return victim != nil || ok
}

// roomBeside implements room and mayWait.
func (t *halfOpenTable) roomBeside(source netip.Addr, waiting int, full, sourceFull bool, now time.Time) (victim *halfOpen, ok bool) {
	own, count, half := t.sources[source], waiting, 0
	if own != nil {
		half = own.count
		count += half
	}
	switch {
	case t.evicting >= t.max:
		return nil, false
	case sourceFull && own == nil:
		return nil, false
	case count > 0 && (sourceFull || half >= t.maxPerSource || full && count+1 >= t.busiest[0].count):
		if waiting > 0 || now.Sub(own.oldest().since) <= graceTime {
			return nil, false
		}
		return own.oldest(), !sourceFull
	case full && (t.busiest[0].count == 1 || t.busiest[0].count <= burstSize && now.Sub(t.busiest[0].oldest().since) < burstTime):
		return t.oldest(now), true
	case full:
		return t.busiest[0].oldest(), true
	}
	return nil, true
}

// maxSpared is the largest number of connections that oldest() skips. Arbitrary.
const maxSpared = 64

// oldest returns the oldest connection of the table. It skips some connections of proven
// sources that are at most graceTime old. So a flood from forged addresses does not evict
// them before a confirmation that was lost can be repeated.
func (t *halfOpenTable) oldest(now time.Time) *halfOpen {
	e := t.byAge.Front()
	for range maxSpared {
		h := e.Value.(*halfOpen)
		if !h.proven || now.Sub(h.since) > graceTime {
			return h
		}
		if e = e.Next(); e == nil {
			break
		}
	}
	return oldestOf(&t.byAge)
}

// oldestOf returns the first connection of the list byAge, which must not be empty.
func oldestOf(byAge *list.List) *halfOpen { return byAge.Front().Value.(*halfOpen) }

func (s *halfOpenSource) oldest() *halfOpen { return oldestOf(&s.byAge) }

func (t *halfOpenTable) add(h *halfOpen, source netip.Addr, now time.Time) {
	s, known := t.sources[source]
	if !known {
		s = &halfOpenSource{key: source}
		t.sources[source] = s
	}
	h.source, h.since = s, now
	h.inSource, h.inTable = s.byAge.PushBack(h), t.byAge.PushBack(h)
	s.count++
	t.total++
	if known {
		heap.Fix(&t.busiest, s.index)
	} else {
		heap.Push(&t.busiest, s)
	}
}

// remove removes a connection. It returns false if the connection is not in the table.
func (t *halfOpenTable) remove(h *halfOpen) (was bool) {
	s := h.source
	if s == nil {
		return false
	}
	if s.count == 1 {
		// The connection stays in the list of its source until heap.Remove has returned,
		// because oldest() must not be called for an empty list.
		heap.Remove(&t.busiest, s.index)
		delete(t.sources, s.key)
	}
	s.byAge.Remove(h.inSource)
	t.byAge.Remove(h.inTable)
	h.source, h.inSource, h.inTable = nil, nil, nil
	s.count--
	t.total--
	if s.count > 0 {
		heap.Fix(&t.busiest, s.index)
	}
	return true
}

// hashSource returns a keyed hash of the source to which an address belongs.
func hashSource(seed maphash.Seed, from netip.Addr) uint64 {
	b := access.SourceOf(from).As16()
	return maphash.Bytes(seed, b[:])
}

// busierThan implements busySource. Of two sources with the same number of connections,
// the source with the older connection is first.
func (s *halfOpenSource) busierThan(other *halfOpenSource) bool {
	if s.count != other.count {
		return s.count > other.count
	}
	return s.oldest().since.Before(other.oldest().since)
}

func (s *halfOpenSource) heapIndex() *int { return &s.index }

// The source address of a request may be forged. Until the address is validated, this
// side sends only few messages to it (RFC 9000, 8.1). There are two ways to validate an
// address:
//
//   - A message from the address contains the communication ID of this side. This ID is
//     random, and only the host at the address has received it.
//   - The data from the address begins with the first packet sequence number that this
//     side expects. This number is random too.

// amplification is the number of messages that may be sent for each message that has
// arrived from an address that is not validated (RFC 9000, 8.1).
const amplification = 3

// addrState is the state of the validation of a peer's address.
type addrState uint8

const (
	// addrAssumed means that the address needs no validation. It is the first state of every
	// conn. The active side stays in it, because its application has chosen the address.
	// On the passive side, addHalfOpen leads to addrHalfOpen.
	addrAssumed addrState = iota
	// addrHalfOpen means that the address may be forged. The connection is in the
	// halfOpenTable of its listener. validate() leads to addrValidated. If the connection is
	// chosen for eviction, its state changes to addrEvicting.
	addrHalfOpen
	// addrEvicting means that the connection was chosen for eviction, and that a queued job
	// will call evict(). The connection counts in halfOpenTable.evicting. validate() leads to
	// addrValidated. evict() ends the connection or leads to addrSpared.
	addrEvicting
	// addrSpared means that the connection had ended before evict() was called, so
	// evict() had no effect. The application has not closed the ID. validate() leads to
	// addrValidated.
	addrSpared
	// addrValidated means that the address is not forged. The connection is counted in
	// sourceConns.validated.
	addrValidated
	// addrReleased is the last state. The conn was released, and is no longer counted
	// anywhere. release() leads here from every state.
	addrReleased
)

// addrValidation has the state of the validation of a peer's address. The multiplexer's
// lock guards it.
type addrValidation struct {
	addr     addrState
	half     halfOpen
	received int // number of messages received from the peer before its address was validated
	sent     int // number of messages sent to the peer before its address was validated
}

// trusted reports whether this side may send any number of messages to the peer.
func (v *addrValidation) trusted() bool { return v.addr == addrAssumed || v.addr == addrValidated }

// maySend reports whether one message may be sent to the peer now, and as many later ones
// as the parameter reserve says.
func (v *addrValidation) maySend(reserve int) bool {
	return v.trusted() || v.sent+reserve < amplification*v.received
}

// mayRetransmit reports whether the last message may be retransmitted now. It keeps one
// message in reserve, because this side may have to send a REJ.
func (c *conn) mayRetransmit() bool {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	return c.maySend(1)
}

// serviceTimeout returns the code of the service timeout in an MRA. For a half-open peer,
// the first timeouts are short: 4.3 s and 17 s.
func (c *conn) serviceTimeout() uint8 {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	if c.trusted() {
		return serviceTimeout
	}
	return uint8(min(16+2*c.received, serviceTimeout))
}

// addHalfOpen adds a connection to the halfOpenTable of its listener. It returns false
// if there is no room. In both cases it may evict another connection. The parameter lookup
// says whether the connection is for a SIDR request. The caller holds the multiplexer's
// lock.
func (c *conn) addHalfOpen(lookup bool) bool {
	table, source, now := &c.listener.halfOpen, access.SourceOf(c.remote), c.mux.clock()
	victim, ok := table.room(source, !lookup && c.mux.sources.full(source), now)
	if victim != nil {
		table.remove(victim)
		table.evicting++
		old := victim.c
		old.addr = addrEvicting
		old.enqueue(job{kind: jobInternal, conn: old, run: func(j *job) { j.conn.evict() }})
		c.mux.Counts.Inc(counters.CMRequestEvicted)
	}
	if !ok {
		c.mux.Counts.Inc(counters.CMRequestDropped)
		return false
	}
	c.half.c, c.half.proven = c, c.mux.proven.has(c.remote, now)
	c.addr = addrHalfOpen
	table.add(&c.half, source, now)
	if !lookup {
		c.mux.sources.opened(source)
	}
	return true
}

// evict ends a connection that was chosen for eviction. It does not end the connection
// in three cases: the address of the peer is validated by now, the connection has ended,
// or the application has called Notify.
func (c *conn) evict() {
	c.mux.mu.Lock()
	chosen := c.addr == addrEvicting
	c.mux.mu.Unlock()
	switch {
	case !chosen:
	case c.state == connOrphan:
		c.release()
	case c.id.State() == connmgr.StateDREQReceived || c.id.State() == connmgr.StateEnded:
		c.spare()
	case c.id.State() == connmgr.StateEstablished:
		// The application has called Notify, because data of the peer has arrived. So the address
		// is valid.
		c.validate()
	default:
		c.id.Withdraw()
	}
}

// spare records that the connection had ended before evict() was called.
func (c *conn) spare() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.endHalfOpen()
	c.addr = addrSpared
}

// validate records that the peer's address is not forged.
func (c *conn) validate() {
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	switch c.addr {
	case addrHalfOpen, addrEvicting, addrSpared:
		c.endHalfOpen()
		c.addr = addrValidated
		if !c.isLookup() {
			c.mux.sources.validated(access.SourceOf(c.remote))
			c.mux.proven.add(c.remote, c.mux.clock())
		}
	}
}

// releaseAddr removes a released connection from all counts. The caller holds the
// multiplexer's lock.
func (c *conn) releaseAddr() {
	c.endHalfOpen()
	if c.addr != addrAssumed && !c.isLookup() {
		c.mux.sources.released(access.SourceOf(c.remote), c.addr == addrValidated)
	}
	c.addr = addrReleased
}

// endHalfOpen removes a connection from the halfOpenTable of its listener. The caller
// holds the multiplexer's lock, and must set a new state.
func (c *conn) endHalfOpen() {
	switch c.addr {
	case addrHalfOpen:
		c.listener.halfOpen.remove(&c.half)
	case addrEvicting:
		c.listener.halfOpen.evicting--
	}
}

// A sourceCounts counts the connections that each source has requested, over all
// listeners; see access.SourceOf. The multiplexer's lock guards it.
type sourceCounts struct {
	limit int                        // largest number of open connections of one source
	conns map[netip.Addr]sourceConns // counts of the sources that have open connections
}

// sourceConns counts the connections of one source.
type sourceConns struct {
	open      int // number of connections that have not been released
	validated int // number of open connections whose peer has a validated address
}

func newSourceCounts(limit int) sourceCounts {
	return sourceCounts{limit: limit, conns: make(map[netip.Addr]sourceConns)}
}

// full reports whether a source has the largest allowed number of connections.
func (s *sourceCounts) full(source netip.Addr) bool { return s.conns[source].open >= s.limit }

// fullForGood reports whether a source has the largest allowed number of connections with
// validated addresses. Connections with validated addresses can not be evicted.
func (s *sourceCounts) fullForGood(source netip.Addr) bool {
	return s.conns[source].validated >= s.limit
}

// opened counts a new connection. The address of its peer is not validated.
func (s *sourceCounts) opened(source netip.Addr) { s.change(source, 1, 0) }

// validated counts an open connection as one whose peer has a validated address.
func (s *sourceCounts) validated(source netip.Addr) { s.change(source, 0, 1) }

// released removes a connection from the counts of its source. The parameter valid says
// whether the connection was counted as validated.
func (s *sourceCounts) released(source netip.Addr, valid bool) {
	if valid {
		s.change(source, -1, -1)
	} else {
		s.change(source, -1, 0)
	}
}

func (s *sourceCounts) change(source netip.Addr, open, validated int) {
	n := s.conns[source]
	n.open += open
	n.validated += validated
	if s.conns[source] = n; n.open == 0 {
		delete(s.conns, source)
	}
}

// A provenSources remembers sources whose address was validated not long ago; see
// addrValidation. In a flood from forged addresses, their requests go before those of
// sources that have not shown anything yet. The multiplexer's lock guards it.
//
// A keyed hash of the source selects its entry, so the memory is fixed, and a stranger
// can not choose an address that takes the entry of another one.
type provenSources struct {
	seed    maphash.Seed
	entries [provenEntries]provenSource
}

// A provenSource is a source whose address was validated last at a time.
type provenSource struct {
	hash uint64
	at   time.Time
}

// The numbers are arbitrary. The entries take 128 KiB.
const (
	provenEntries = 4096
	provenTime    = 10 * time.Minute
)

func newProvenSources() *provenSources { return &provenSources{seed: maphash.MakeSeed()} }

// add records that the address of a source was validated.
func (p *provenSources) add(from netip.Addr, now time.Time) {
	hash := hashSource(p.seed, from)
	p.entries[hash%provenEntries] = provenSource{hash, now}
}

// has reports whether an address of the source was validated in the last provenTime.
func (p *provenSources) has(from netip.Addr, now time.Time) bool {
	hash := hashSource(p.seed, from)
	e := &p.entries[hash%provenEntries]
	return e.hash == hash && !e.at.IsZero() && now.Sub(e.at) < provenTime
}

// An answerLimit limits the rate of the REJs, SIDR_REPs and DREPs that are sent to
// unknown peers. Without it, forged datagrams could make this host send many answers to
// another host.
//
// Sources share a fixed number of rates. A keyed hash of the source selects its
// rate.
type answerLimit struct {
	seed maphash.Seed
	// time of the first call of allow(); zero of the times in the rates
	start   time.Time
	total   access.Rate
	sources [answerBuckets]access.Rate
}

// Limits of the rates. All numbers are arbitrary.
const (
	// answersPerSecond is the largest number of answers in one second to all sources
	// together. It is also the largest number of answers in a burst.
	answersPerSecond = 2048
	// answersPerAddress is the largest number of answers in one second to one source. A
	// source is an IPv4 address or an IPv6 prefix.
	answersPerAddress = 256
	// answerBuckets is the number of elements in answerLimit.sources. Sources with the
	// same hash share an element.
	answerBuckets = 4096
)

func newAnswerLimit() *answerLimit { return &answerLimit{seed: maphash.MakeSeed()} }

// exhausted reports whether allow would return false.
func (l *answerLimit) exhausted(to netip.Addr, at time.Time) bool {
	now := int64(at.Sub(l.start))
	own := &l.sources[hashSource(l.seed, to)%answerBuckets]
	return !l.start.IsZero() && !(own.Allows(now, answersPerAddress) && l.total.Allows(now, answersPerSecond))
}

// allow reports whether an answer may be sent to an address at the given time. If so, it
// counts the answer.
func (l *answerLimit) allow(to netip.Addr, at time.Time) bool {
	if l.start.IsZero() {
		l.start = at
	}
	// The difference of the two times is monotonic, so changes of the system clock do not
	// affect it.
	now := int64(at.Sub(l.start))
	own := &l.sources[hashSource(l.seed, to)%answerBuckets]
	if !own.Allows(now, answersPerAddress) || !l.total.Allows(now, answersPerSecond) {
		return false
	}
	own.Use(now, answersPerAddress)
	l.total.Use(now, answersPerSecond)
	return true
}
