//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// qpDemux is a shard's part of the wire path: the queue pairs that packets are
// for, and those that have something to send.
//
// What comes in changes state, and what goes out is made from the state later,
// once for all that came in: one acknowledgement for a burst, one flush for all
// queue pairs.
type qpDemux struct {
	conn packetConn
	qps  map[uint32]wireQP // by queue pair number
	due  []wireQP
	// peers are those of reliable connections.
	congestions map[netip.Addr]*congestion
	// pressing: nothing is to be put off, the owner may go to sleep.
	flushAll bool
}

// receive hands a packet to the queue pair it is for, and drops what is for none
// (IBTA vol. 1, 9.6.1). The link has checked the ICRC. See packetSink.
func (s *qpDemux) receive(p wire.Packet, from *ipHeader) (taken bool) {
	bth := p.BTH()
	if !wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	end := s.qps[bth.DestQP()]
	if end != nil {
		end.receive(p, from)
	}
	return end != nil
}

// work sends what is due. An owner that is busy does it when it comes back, after
// it has posted its own requests: no reply waits for an acknowledgement.
func (s *qpDemux) sendDue() {
	if len(s.due) == 0 {
		return
	}
	n := 0
	for i := 0; i < len(s.due); i++ { // one may make another due
		if end := s.due[i]; !end.sendDue() {
			s.due[n] = end
			n++
		}
	}
	clear(s.due[n:])
	s.due = s.due[:n]
	s.conn.flush()
}

// settle sends what is due and what was put off, and reports whether that was
// all.
func (s *qpDemux) sendAll() bool {
	s.flushAll = true
	s.sendDue()
	s.flushAll = false
	return len(s.due) == 0
}

// attach makes a queue pair reachable.
func (s *qpDemux) attach(num uint32, end wireQP) {
	if s.qps == nil {
		s.qps = make(map[uint32]wireQP)
	}
	s.qps[num] = end
}

func (s *qpDemux) detach(num uint32) { delete(s.qps, num) }
