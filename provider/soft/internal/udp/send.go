//go:build linux

package udp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A sender collects packets and sends them, many with one call of the system.
// It never blocks. Runs of packets of the same length to the same peer go as one
// message that the system, or the network card, cuts up (udp(7), UDP_SEGMENT).
type sender struct {
	shared       connectedSocket // of destinations that have none of their own
	batch        *batch
	packets      []wire.Packet // in the buffers of the same index
	dests        []*destination
	queued       int  // packets that wait, from the first buffer on
	segmentation bool // UDP_SEGMENT may be used
	// A destination may be given an outlet. That takes as long as twenty packets
	// do, so there is one in a turn of the owner, however many have earned theirs.
	mayConnect      bool
	connectDisabled bool // no destination may: the system does not let the identification be learned
	counts          *counters.Set
}

const (
	// maxSegments and maxSegmented bound one message with UDP_SEGMENT: kernels
	// before 6.9 take 64 segments, and a UDP datagram over IPv4 has 65507 bytes.
	maxSegments  = 64
	maxSegmented = 65507
)

func newSender(fd, packets, size int, counts *counters.Set) sender {
	return sender{
		shared: connectedSocket{fd: fd}, batch: newBatch(packets, size),
		packets: make([]wire.Packet, packets), dests: make([]*destination, packets),
		segmentation: canSegment(fd), mayConnect: true, counts: counts,
	}
}

// canSegment asks the system for UDP_SEGMENT. What a route can do is not known
// before a packet is refused.
func canSegment(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// buffer is the memory for the next packet, until put; nil when there is no
// room, as long as the system takes nothing.
func (s *sender) buffer() []byte {
	if s.queued == len(s.packets) {
		s.flush()
	}
	if s.queued == len(s.packets) {
		return nil
	}
	return s.batch.buffer(s.queued)
}

// put queues a packet, complete but for its ICRC, that was built at the
// beginning of buffer. It is sent by flush. to is not used after that.
func (s *sender) put(p wire.Packet, to *destination) {
	s.batch.setLength(s.queued, len(p.Bytes()))
	s.packets[s.queued], s.dests[s.queued] = p, to
	s.queued++
	if tried, err := to.counted(s.mayConnect); tried {
		s.mayConnect, s.connectDisabled = false, errors.Is(err, errProbeLost)
	}
}

// outlet is where a packet leaves by.
func (s *sender) socketFor(packet int) *connectedSocket {
	if o := s.dests[packet].socket; o != nil {
		return o
	}
	return &s.shared
}

// blocked is what the first packet waits for, if there is one.
func (s *sender) blocked() *connectedSocket {
	if s.queued == 0 {
		return nil
	}
	return s.socketFor(0)
}

// flush sends what is queued, as far as the system takes it now.
func (s *sender) flush() {
	first := 0 // packet
	for first < s.queued {
		out := s.socketFor(first)
		messages := s.gather(out, first)
		sent, err := s.batch.send(out.fd, messages)
		out.sent(sent)
		before := first
		for i := range sent {
			first += s.batch.count(i)
		}
		s.counts.Add(counters.SentPkts, uint64(first-before))
		if err != nil && !s.refused(err, &first) {
			break
		}
		if err == nil && sent < messages && out.counts && !out.full() {
			// A call that has sent something does not tell what it stopped at
			// (sendmmsg(2)). A refused message may have used up a number.
			s.dests[first].disconnect()
		}
	}
	s.keep(first)
}

// refused handles the refusal of the message that begins with packet first, and
// reports whether to go on.
func (s *sender) refused(err error, first *int) bool {
	n := s.batch.count(0)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case s.dests[*first].socket != nil:
		// It may be news of earlier packets (udp(7), ECONNREFUSED), and the number of
		// the next message is not known any more: by the outlet of all, then.
		s.dests[*first].disconnect()
	case errors.Is(err, unix.ENOBUFS):
		return false
	case n > 1 && (errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL)):
		// The device can not compute checksums, or the segments do not fit:
		// send each by itself, now and from now on.
		s.segmentation = false
	default:
		*first += n
		s.counts.Add(counters.SendErr, uint64(n))
	}
	return true
}

// gather makes messages of the packets from first on that leave by the same outlet,
// and seals them.
func (s *sender) gather(out *connectedSocket, first int) (messages int) {
	for first < s.queued && s.socketFor(first) == out {
		n := s.run(first)
		segment := 0
		if n > 1 {
			segment = len(s.packets[first].Bytes())
		}
		to, id := s.dests[first], out.identification(messages)
		for i := range n {
			to.flow.Seal(s.packets[first+i], id+uint16(i))
		}
		s.batch.address(messages, first, n, to, segment)
		messages++
		first += n
	}
	return messages
}

// run is how many packets from first on can go as one message: all of one
// length, but that the last may be shorter, and to one queue pair, since a
// receiver on this host chooses the shard once for the message.
func (s *sender) run(first int) int {
	if !s.segmentation {
		return 1
	}
	size, qpn := len(s.packets[first].Bytes()), s.packets[first].BTH().DestQP()
	n, total := 1, size
	for i := first + 1; i < s.queued && n < maxSegments; i++ {
		next := len(s.packets[i].Bytes())
		if s.dests[i] != s.dests[first] || s.packets[i].BTH().DestQP() != qpn || next > size || total+next > maxSegmented {
			break
		}
		n, total = n+1, total+next
		if next < size {
			break
		}
	}
	return n
}

// keep moves the packets from first on to the front.
func (s *sender) keep(first int) {
	if first == 0 {
		return
	}
	n := s.queued - first
	for i := range n {
		s.batch.swap(i, first+i)
		s.packets[i], s.packets[first+i] = s.packets[first+i], wire.Packet{}
		s.dests[i] = s.dests[first+i]
	}
	clear(s.dests[n:s.queued])
	s.queued = n
}
