//go:build linux

package madcm

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// numberedREQ returns the REQ number n of the madPeer. Each number has its own
// communication ID and queue pair.
func (s *madPeer) numberedREQ(l *cm.ID, n uint32) *wire.REQ {
	r := s.req(l.LocalAddr().Port())
	r.LocalID, r.QPN = r.LocalID+n, r.QPN+n
	return r
}

// requestFrom sends the REQ number n. It returns the ID that the server's application
// gets for it.
func (s *madPeer) requestFrom(l *cm.ID, n uint32) *cm.ID {
	s.t.Helper()
	s.sendREQ(s.numberedREQ(l, n))
	passive, _ := s.server.Request(l)
	return passive
}

// A peer whose address is not validated gets at most three messages for each message that
// it sends. Each copy of its REQ is answered.
func TestWireCMAmplification(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	r := s.req(l.LocalAddr().Port())
	s.sendREQ(r)
	passive, _ := s.server.Request(l)
	s.accept(passive, nil)
	sent := func() (n int) {
		for _, attr := range s.sent {
			if attr == wire.AttrREP || attr == wire.AttrREJ {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, sent())
	for s.clock.Now = s.clock.Now.Add(4 * time.Second); sent() < 2; s.settle() {
	}
	s.clock.Now = s.clock.Now.Add(4 * time.Second)
	s.settle()
	require.Equal(t, 2, sent(), "one message is reserved for a refusal")

	for copies := 1; copies < 5; copies++ {
		before := sent()
		require.NotEmpty(t, s.sendREQ(r), "a copy is answered at once")
		for range 10 {
			s.clock.Now = s.clock.Now.Add(time.Second)
			s.settle()
		}
		require.Greater(t, sent(), before+1, "the answer is retransmitted")
		require.Less(t, sent(), amplification*(1+copies))
	}
	s.server.End(passive)
	s.settle()
	require.Equal(t, wire.AttrREJ, s.sent[len(s.sent)-1])
	require.LessOrEqual(t, len(s.sent), amplification*5)
}

// A message validates its sender's address only if it contains the communication ID that
// was sent to that address.
func TestWireCMGuessedConfirmation(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive := s.requestFrom(l, 0)
	s.accept(passive, nil)
	var rep wire.REP
	rep.Decode(&s.received[len(s.received)-1])
	c := s.server.mux.conns[rep.LocalID]
	r := s.req(l.LocalAddr().Port())
	var m wire.MAD
	for _, rtu := range []wire.RTU{
		{LocalID: r.LocalID, RemoteID: rep.LocalID + 1}, {LocalID: r.LocalID},
		{LocalID: r.LocalID + 1, RemoteID: rep.LocalID}, {RemoteID: rep.LocalID},
	} {
		rtu.Encode(&m, 1)
		s.send(&m)
		require.NotEqual(t, addrValidated, c.addr)
	}
	(&wire.RTU{LocalID: r.LocalID, RemoteID: rep.LocalID}).Encode(&m, 1)
	s.inject(&m, otherAddr, serverAddr)
	s.settle()
	require.NotEqual(t, addrValidated, c.addr, "the message came from another address")
	s.server.Quiet()
	s.send(&m)
	s.server.Want(cm.Established, passive)
	require.Equal(t, addrValidated, c.addr)
	require.Zero(t, c.listener.halfOpen.total)
	require.Equal(t, map[string]sourceConns{clientAddr.String(): {1, 1}}, connCounts(s.server))
	s.server.End(passive)
	s.server.TC.Probe().Locked(func() {
		for c := range s.server.mux.channels[s.server.TC].orphans {
			c.release()
		}
	})
	require.Empty(t, connCounts(s.server))
}

func connCounts(p *party) map[string]sourceConns {
	all := make(map[string]sourceConns)
	for source, n := range p.mux.sources.conns {
		all[source.String()] = n
	}
	return all
}

// When the halfOpenTable is full, a request from another source evicts the oldest
// connection. If the application has fetched the evicted connection's request, it gets
// an event.
func TestWireCMEvicts(t *testing.T) {
	s := newMADPeer(t, func(c *Config) { c.MaxHalfOpen, c.MaxHalfOpenPerAddress = 3, 3 })
	l := s.listen(cm.TCP, 0)
	accepted := s.requestFrom(l, 0)
	s.accept(accepted, nil)
	fetched := s.requestFrom(l, 1)
	s.sendREQ(s.numberedREQ(l, 2)) // The application does not fetch this request.
	mux := s.server.mux
	require.Len(t, mux.conns, 3)

	other := otherAddr
	askOther := func() {
		var m wire.MAD
		s.reqFrom(other, l.LocalAddr().Port()).Encode(&m, 1)
		s.received = nil
		s.inject(&m, other, serverAddr)
		other = other.Next()
		s.settle() // This call handles the request.
		s.settle() // This call evicts the oldest connection.
	}
	askOther()
	require.Len(t, s.received, 1)
	var rej wire.REJ
	rej.Decode(&s.received[0])
	require.Equal(t, cm.RejectNoResources, cm.RejectReason(rej.Reason))
	require.Len(t, mux.conns, 3)
	require.Equal(t, verbs.StateError, accepted.QP().State())
	queued := func() (n int) {
		for _, ev := range s.server.TC.Probe().Queued() {
			if ev.Type == cm.ConnectRequest {
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, queued())

	// The evicted connection was not accepted. Its client gets no REJ, because the
	// application may still accept a later copy of the REQ.
	askOther()
	require.Empty(t, s.received)
	require.ErrorIs(t, fetched.Accept(&cm.ConnParam{QPNum: 2}), verbs.ErrPeerGone)
	askOther()
	require.Len(t, mux.conns, 3)
	require.Equal(t, 3, queued())
	ev := s.server.Next()
	for ev.Type == cm.ConnectRequest {
		s.server.EndLater(ev.ID)
		require.NoError(t, ev.Ack())
		ev = s.server.Next()
	}
	require.Equal(t, cm.Unreachable, ev.Type)
	require.Same(t, accepted, ev.ID)
	require.NoError(t, ev.Ack())
	require.Equal(t, uint64(3), s.counter(counters.CMRequestEvicted))
	require.Zero(t, s.listenerOf(l).halfOpen.evicting)
}

// A cancelled request counts as half-open until the application closes the ID.
func TestWireCMWithdrawnRequestsAreBounded(t *testing.T) {
	const most, requests = 4, 20
	s := newMADPeer(t, func(c *Config) { c.MaxHalfOpen, c.MaxHalfOpenPerAddress = most, most })
	l := s.listen(cm.TCP, 0)
	mux := s.server.mux
	events := 0
	for n := range uint32(requests) {
		s.clock.Now = s.clock.Now.Add(2 * graceTime)
		r := s.numberedREQ(l, n)
		s.sendREQ(r)
		s.settle()
		for len(s.server.TC.Probe().Queued()) > 0 {
			ev := s.server.Next()
			id, typ := ev.ID, ev.Type
			require.NoError(t, ev.Ack())
			if typ == cm.Unreachable {
				events++
				require.NoError(t, id.Close())
				continue
			}
			require.Equal(t, cm.ConnectRequest, typ)
			s.server.EndLater(id)
		}
		back := wire.REJ{LocalID: r.LocalID, Rejected: wire.AnsweredOther, Reason: uint16(cm.RejectTimeout), InfoLength: 8}
		binary.BigEndian.PutUint64(back.Info[:], r.CAGUID)
		var m wire.MAD
		back.Encode(&m, 1)
		s.send(&m)
		require.LessOrEqual(t, len(mux.conns), most)
		require.Equal(t, len(mux.conns), s.listenerOf(l).halfOpen.total)
	}
	require.Equal(t, requests-most, events)
}

func (w *madSim) counter(id counters.ID) uint64 { return w.server.mux.Counts.Load(id) }

// listenerOf returns the server's listener that belongs to the listening ID l.
func (w *madSim) listenerOf(l *cm.ID) *listener {
	mux := w.server.mux
	return mux.listeners[wire.NewServiceID(uint16(l.PortSpace()), l.LocalAddr().Port())][0]
}

// A source that has MaxConnsPerAddress connections can open another one only after one
// of them has ended.
func TestWireCMAddressFull(t *testing.T) {
	s := newMADPeer(t, func(c *Config) { c.MaxConnsPerAddress = 1 })
	l := s.listen(cm.TCP, 0)
	passive, r, rep := s.established(l)
	next := s.numberedREQ(l, 1)
	answers := s.sendREQ(next)
	require.Len(t, answers, 1)
	var rej wire.REJ
	rej.Decode(&answers[0])
	require.Equal(t, cm.RejectNoResources, cm.RejectReason(rej.Reason))
	require.Equal(t, uint64(1), s.counter(counters.CMAddressFull))

	var m wire.MAD
	other := s.reqFrom(otherAddr, l.LocalAddr().Port())
	other.Encode(&m, 1)
	s.inject(&m, otherAddr, serverAddr)
	s.settle()
	s.server.Request(l)

	(&wire.DREQ{LocalID: r.LocalID, RemoteID: rep.LocalID, RemoteQPN: rep.QPN}).Encode(&m, 1)
	s.send(&m)
	s.server.Want(cm.Disconnected, passive)
	s.server.End(passive)
	require.Empty(t, s.sendREQ(next))
	s.server.Request(l)
}

// MaxConnsPerAddress limits the connections of one peer to all listeners together. A
// request above the limit is dropped, and evicts a half-open connection that is older
// than graceTime.
func TestWireCMBurstAboveAddressLimit(t *testing.T) {
	const most = 3
	s := newMADPeer(t, func(c *Config) { c.MaxConnsPerAddress = most })
	first, second := s.listen(cm.TCP, 0), s.listen(cm.TCP, 0)
	mux := s.server.mux
	for n := range uint32(4) {
		for i, l := range []*cm.ID{first, second} {
			var m wire.MAD
			s.numberedREQ(l, 2*n+uint32(i)).Encode(&m, 1)
			s.inject(&m, clientAddr, serverAddr)
		}
	}
	s.settle()
	require.Len(t, mux.conns, most)
	require.Equal(t, map[string]sourceConns{clientAddr.String(): {open: most}}, connCounts(s.server))
	require.Equal(t, uint64(8-most), s.counter(counters.CMRequestDropped))

	s.clock.Now = s.clock.Now.Add(2 * graceTime)
	last := s.numberedREQ(first, 6)
	s.sendREQ(last)
	s.settle() // This call evicts the oldest connection.
	require.Len(t, mux.conns, most-1)
	s.sendREQ(last)
	require.Len(t, mux.conns, most)
	require.NotNil(t, mux.byPeer[peerKey{clientAddr, last.CAGUID, last.LocalID}])
	for len(s.server.TC.Probe().Queued()) > 0 {
		ev := s.server.Next()
		s.server.EndLater(ev.ID)
		require.NoError(t, ev.Ack())
	}
}

// A copy of a refused request gets the same REJ, even if the refusing ID was closed.
func TestWireCMCopyOfRefusedRequest(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	passive := s.requestFrom(l, 0)
	require.NoError(t, passive.Reject([]byte("no")))
	first := s.received[len(s.received)-1]
	s.server.End(passive)
	require.Equal(t, []wire.MAD{first}, s.sendREQ(s.numberedREQ(l, 0)))
	s.server.Quiet()
	require.Empty(t, s.server.mux.conns)

	// Later refused requests replace the first one in refusedRequests.
	for n := range uint32(10 * refusedPerBucket * refusedBuckets) {
		other := s.requestFrom(l, n+1)
		require.NoError(t, other.Reject(nil))
		s.server.End(other)
	}
	kept := 0
	for i := range s.server.mux.refused.buckets {
		kept += len(s.server.mux.refused.buckets[i].requests)
	}
	require.Equal(t, refusedPerBucket, kept, "one source has one bucket")
	s.clock.Now = s.clock.Now.Add(2 * connmgr.RequestTimeout)
	require.Empty(t, s.sendREQ(s.numberedREQ(l, 10*refusedPerBucket*refusedBuckets)), "the entry has expired")
	s.server.Request(l)
}

// The server limits the rate of its answers to messages that belong to no connection.
func TestWireCMAnswerRateIsLimited(t *testing.T) {
	s := newMADPeer(t)
	l := s.listen(cm.TCP, 0)
	ask := map[string]func(n uint32) wire.MAD{
		"unknown service": func(n uint32) (m wire.MAD) {
			r := s.numberedREQ(l, n)
			r.ServiceID++
			r.Encode(&m, 1)
			return m
		},
		"unknown connection": func(n uint32) (m wire.MAD) {
			(&wire.DREQ{LocalID: 5, RemoteID: n, RemoteQPN: 7}).Encode(&m, 1)
			return m
		},
		"unknown reply": func(n uint32) (m wire.MAD) {
			(&wire.REP{LocalID: 5, RemoteID: n, QPN: 7}).Encode(&m, 1)
			return m
		},
		"unknown lookup": func(n uint32) (m wire.MAD) {
			(&wire.SIDRREQ{RequestID: n, ServiceID: wire.NewServiceID(uint16(cm.UDP), 9)}).Encode(&m, 1)
			return m
		},
	}
	for name, message := range ask {
		s.clock.Now = s.clock.Now.Add(time.Minute)
		answers := 0
		for n := range uint32(4 * answersPerAddress) {
			m := message(n + 1)
			answers += len(s.send(&m))
		}
		require.Equal(t, answersPerAddress, answers, name)
	}
	require.Equal(t, uint64(len(ask)*3*answersPerAddress), s.counter(counters.CMAnswerDropped)+s.counter(counters.CMRequestUnread))
}

// A connection becomes stale while the job that evicts it is queued. The application
// gets Disconnected, and can call Close or Disconnect.
func TestWireCMEvictsStale(t *testing.T) {
	for name, end := range map[string]func(*cm.ID) error{
		"close":      func(id *cm.ID) error { return errors.Join(id.CloseQP(), id.Close()) },
		"disconnect": func(id *cm.ID) error { return id.Disconnect(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newMADPeer(t, func(c *Config) { c.MaxHalfOpen, c.MaxHalfOpenPerAddress = 1, 1 })
			l := s.listen(cm.TCP, 0)
			passive := s.requestFrom(l, 0)
			s.accept(passive, nil)

			// The peer uses the queue pair of the first connection in another request.
			forgotten := s.numberedREQ(l, 0)
			forgotten.LocalID++
			var m wire.MAD
			forgotten.Encode(&m, 1)
			s.inject(&m, clientAddr, serverAddr)
			s.reqFrom(otherAddr, l.LocalAddr().Port()).Encode(&m, 2)
			s.inject(&m, otherAddr, serverAddr)
			// The request of the other address is admitted first, and evicts the connection. But
			// the connection ends with ErrStale before the job of the eviction runs.
			s.settle()
			s.settle()
			s.server.Request(l)

			ev := s.server.Want(cm.Disconnected, passive)
			require.ErrorIs(t, ev.Err, cm.ErrStale)
			require.NoError(t, end(passive))
			require.Zero(t, s.listenerOf(l).halfOpen.evicting)
		})
	}
}
