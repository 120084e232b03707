//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// A qpDemux is a shard's part of the wire path. It delivers packets to queue pairs by
// number, and lists the queue pairs that have something to send.
//
// A received packet only changes the state of a queue pair. The queue pair sends its
// responses later, once for all packets that have arrived. So there is one
// acknowledgement for a burst, and one flush for all queue pairs.
type qpDemux struct {
	conn packetConn
	qps  map[uint32]wireQP // queue pairs by number
	due  []wireQP          // queue pairs that have something to send
	// congestions has the congestion control of the reliable connections, by peer address.
	congestions map[netip.Addr]*congestion
	// flushAll is true during sendAll. The owner of the shard may go to sleep after
	// sendAll, so acknowledgements must not be delayed then.
	flushAll bool
}

// receive delivers a packet to its queue pair and returns true. It drops a packet for
// another partition or for an unknown queue pair, and returns false (IBTA vol. 1,
// 9.6.1). The caller has checked the ICRC.
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

// sendDue sends the packets that are due. It leaves delayed acknowledgements for a later
// call: a busy owner calls drive again after it has posted its own requests, so these
// requests are sent before the acknowledgements.
func (s *qpDemux) sendDue() {
	if len(s.due) > 0 {
		s.sendListed()
	}
}

// sendListed calls sendDue of the listed queue pairs. The queue pairs that could not
// send everything stay in the list. It is a function of its own so that the compiler
// inlines the method sendDue of qpDemux, which mostly finds an empty list.
func (s *qpDemux) sendListed() {
	n := 0
	// q.sendDue can append to s.due. So the loop reads the length of s.due each time.
	for i := 0; i < len(s.due); i++ {
		if q := s.due[i]; !q.sendDue() {
			s.due[n] = q
			n++
		}
	}
	clear(s.due[n:])
	s.due = s.due[:n]
	s.conn.Flush()
}

// sendAll sends the packets that are due, and also delayed acknowledgements. It reports
// whether all of them were sent.
func (s *qpDemux) sendAll() bool {
	s.flushAll = true
	s.sendDue()
	s.flushAll = false
	return len(s.due) == 0
}

// attach registers a queue pair with its number. The queue pair then receives the
// packets for this number.
func (s *qpDemux) attach(num uint32, q wireQP) {
	if s.qps == nil {
		s.qps = make(map[uint32]wireQP)
	}
	s.qps[num] = q
}

func (s *qpDemux) detach(num uint32) { delete(s.qps, num) }
