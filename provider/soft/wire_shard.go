//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// wireShard is a shard's part of the wire path: the queue pairs that packets are
// for, and those that have something to send.
//
// What comes in changes state, and what goes out is made from the state later,
// once for all that came in: one acknowledgement for a burst, one flush for all
// queue pairs.
type wireShard struct {
	link packetLink
	ends map[uint32]wireEnd // by queue pair number
	due  []wireEnd
	// peers are those of reliable connections.
	peers map[netip.Addr]*wirePeer
	// pressing: nothing is to be put off, the owner may go to sleep.
	pressing bool
}

// receive hands a packet to the queue pair it is for, and drops what is for none
// (IBTA vol. 1, 9.6.1). The link has checked the ICRC. See packetSink.
func (s *wireShard) receive(p wire.Packet, from *arrival) (taken bool) {
	bth := p.BTH()
	if !wire.PKeysMatch(bth.PKey(), wire.DefaultPKey) {
		return false
	}
	end := s.ends[bth.DestQP()]
	if end != nil {
		end.receive(p, from)
	}
	return end != nil
}

// work sends what is due. An owner that is busy does it when it comes back, after
// it has posted its own requests: no reply waits for an acknowledgement.
func (s *wireShard) work() {
	if len(s.due) == 0 {
		return
	}
	n := 0
	for i := 0; i < len(s.due); i++ { // one may make another due
		if end := s.due[i]; !end.work() {
			s.due[n] = end
			n++
		}
	}
	clear(s.due[n:])
	s.due = s.due[:n]
	s.link.flush()
}

// settle sends what is due and what was put off, and reports whether that was
// all.
func (s *wireShard) settle() bool {
	s.pressing = true
	s.work()
	s.pressing = false
	return len(s.due) == 0
}

// attach makes a queue pair reachable.
func (s *wireShard) attach(num uint32, end wireEnd) {
	if s.ends == nil {
		s.ends = make(map[uint32]wireEnd)
	}
	s.ends[num] = end
}

func (s *wireShard) detach(num uint32) { delete(s.ends, num) }
