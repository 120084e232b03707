//go:build linux

package soft

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A qpDemux delivers the packets of a shard to queue pairs by number. It delivers all
// packets before it sends responses, so a burst of requests needs only one
// acknowledgement.
type qpDemux struct {
	conn packetConn
	qps  map[uint32]wireQP // queue pairs by number
	due  []wireQP          // queue pairs that have something to send
	// congestion control of the RC connections, by peer address
	congestions map[netip.Addr]*congestion
	// true during sendAll, which sends acknowledgements without delay
	flushAll bool
	// true if packets were queued after the last flush
	unflushed bool
	// true if flushFirst has sent packets since the last call of sendDue
	flushed bool
	// true if requests that ask for an acknowledgement were received after the last call of
	// answer
	asked bool
	pace  turnPace
	held  heldPackets
	polls uint32 // number of polls of the sockets that have ended; wraps
}

// receive delivers a packet to its queue pair. It returns false if the partition or the
// queue pair number is wrong (IBTA vol. 1, 9.6.1). The caller has checked the ICRC.
func (s *qpDemux) receive(p wire.Packet, from *udp.Header) (taken bool) {
	bth := p.BTH()
	if !wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	q := s.qps[bth.DestQP()]
	if q != nil {
		q.receive(p, from)
	}
	return q != nil
}

// sendDue sends the packets that are due. Acknowledgements may wait for a later call;
// see ackDelay.
func (s *qpDemux) sendDue() {
	s.flushed = false
	if !s.idle() {
		s.sendListed()
	}
}

// answer is called after packets were received, if asked is true. Unless the owner's
// turns are short, it sends what is due, so that the peer gets its acknowledgements
// before the owner's callbacks run.
func (s *qpDemux) answer(clock func() time.Duration) {
	s.asked = false
	if !s.pace.next(clock) {
		s.sendListed()
	}
}

func (s *qpDemux) push(to *udp.Route, p wire.Packet) {
	s.unflushed = true
	s.conn.Push(to, p)
}

// flushFirst sends the queued packets, but only in its first call after sendDue. After
// that, packets wait for the next sendDue, so that one system call can send the packets
// of many connections.
func (s *qpDemux) flushFirst() {
	if s.unflushed && !s.flushed {
		s.flushed = true
		s.flush()
	}
}

func (s *qpDemux) flush() {
	s.unflushed = false
	s.conn.Flush()
}

// idle reports whether there is nothing to send.
func (s *qpDemux) idle() bool { return len(s.due) == 0 && !s.unflushed }

// sendListed lets the queue pairs in s.due send. Queue pairs with unsent packets stay in
// s.due. The compiler can inline qpDemux.sendDue because sendListed is a separate
// function.
func (s *qpDemux) sendListed() {
	n := 0
	// The calls of q.sendDue may append to s.due, so len(s.due) is read in each round.
	for i := 0; i < len(s.due); i++ {
		if q := s.due[i]; !q.sendDue() {
			s.due[n] = q
			n++
		}
	}
	clear(s.due[n:])
	s.due = s.due[:n]
	s.flush()
}

// sendAll is called before the owner may sleep. It sends what is due, and also the
// delayed acknowledgements. It returns false if something is left.
func (s *qpDemux) sendAll() bool {
	s.flushAll = true
	s.sendDue()
	s.flushAll = false
	return len(s.due) == 0
}

// attach registers a queue pair for the packets with its number.
func (s *qpDemux) attach(num uint32, q wireQP) {
	if s.qps == nil {
		s.qps = make(map[uint32]wireQP)
	}
	s.qps[num] = q
}

func (s *qpDemux) detach(num uint32) { delete(s.qps, num) }
