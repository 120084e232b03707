//go:build linux

package udp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A sender queues packets, and sends many with one system call. It never blocks. Packets
// of the same length to the same queue pair become one message, which the system or the
// network card cuts into datagrams (udp(7), UDP_SEGMENT).
type sender struct {
	shared       connectedSocket // for destinations without a connected socket
	batch        *batch
	packets      []wire.Packet  // packets in the buffers of the same index
	dests        []*destination // destinations of the packets of the same index
	queued       int            // number of packets that wait, from the first buffer on
	segmentation bool           // UDP_SEGMENT may be used
	// mayConnect allows one destination to get a connected socket before the next poll of
	// the owner. Connecting takes as long as sending 20 packets.
	mayConnect bool
	// connectDisabled is set after a probe was lost: no destination gets a connected
	// socket any more.
	connectDisabled bool
	counts          *counters.Set
}

const (
	// maxSegments and maxSegmented bound one message with UDP_SEGMENT: kernels
	// before 6.9 take 64 segments, and a UDP datagram over IPv4 has 65507 bytes.
	maxSegments  = 64
	maxSegmented = 65507
)

// newSender returns a sender for the shared socket fd. The parameter packets is the
// largest number of packets in its queue, and size the largest length of a packet in
// bytes.
func newSender(fd, packets, size int, counts *counters.Set) sender {
	return sender{
		shared: connectedSocket{fd: fd}, batch: newBatch(packets, size),
		packets: make([]wire.Packet, packets), dests: make([]*destination, packets),
		segmentation: canSegment(fd), mayConnect: true, counts: counts,
	}
}

// canSegment reports whether the system supports UDP_SEGMENT. Whether a network interface
// supports it is known when a message is refused.
func canSegment(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// buffer returns the memory for the next packet, until put. It returns nil if all buffers
// are in use and the system accepts no packets now.
func (s *sender) buffer() []byte {
	if s.queued == len(s.packets) {
		s.flush()
	}
	if s.queued == len(s.packets) {
		return nil
	}
	return s.batch.buffer(s.queued)
}

// put queues a packet that was built at the beginning of buffer, and that is complete
// except for its ICRC. flush sends it.
func (s *sender) put(p wire.Packet, to *destination) {
	s.batch.setLength(s.queued, len(p.Bytes()))
	s.packets[s.queued], s.dests[s.queued] = p, to
	s.queued++
	if tried, err := to.countPacket(s.mayConnect); tried {
		s.mayConnect, s.connectDisabled = false, errors.Is(err, errProbeLost)
	}
}

// socketFor returns the socket through which a queued packet is sent.
func (s *sender) socketFor(packet int) *connectedSocket {
	if o := s.dests[packet].socket; o != nil {
		return o
	}
	return &s.shared
}

// blocked returns the socket that has to accept the first queued packet, or nil if no
// packets are queued.
func (s *sender) blocked() *connectedSocket {
	if s.queued == 0 {
		return nil
	}
	return s.socketFor(0)
}

// flush sends the queued packets that the system accepts now.
func (s *sender) flush() {
	first := 0 // index of the first packet that is not sent
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
		if err != nil && !s.handleError(err, &first) {
			break
		}
		if err == nil && sent < messages && out.countsIDs && !out.full() {
			// A call that has sent some messages does not return the error of the next
			// one (sendmmsg(2)). The refused message may have used an identification.
			s.dests[first].disconnect()
		}
	}
	s.moveToFront(first)
}

// handleError handles the error of the message that begins with packet first, and reports
// whether to try again. It counts the packets of a message that can not be sent, and
// skips them.
func (s *sender) handleError(err error, first *int) bool {
	n := s.batch.count(0)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case s.dests[*first].socket != nil:
		// The error may be that of an earlier packet (udp(7), ECONNREFUSED). The
		// identification of the next message is not known, so the packet is sent through
		// the shared socket.
		s.dests[*first].disconnect()
	case errors.Is(err, unix.ENOBUFS):
		return false
	case n > 1 && (errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL)):
		// The network interface can not compute checksums, or the segments are too long.
		// From now on, each packet is a message.
		s.segmentation = false
	default:
		*first += n
		s.counts.Add(counters.SendErr, uint64(n))
	}
	return true
}

// gather makes messages of the packets from first on, up to the first one for another
// socket, and seals the packets. It returns the number of messages.
func (s *sender) gather(out *connectedSocket, first int) (messages int) {
	for first < s.queued && s.socketFor(first) == out {
		n := s.segmentsFrom(first)
		segment := 0
		if n > 1 {
			segment = len(s.packets[first].Bytes())
		}
		to, id := s.dests[first], out.identification(messages)
		for i := range n {
			to.flow.Seal(s.packets[first+i], id+uint16(i))
		}
		s.batch.prepareSend(messages, first, n, to, segment)
		messages++
		first += n
	}
	return messages
}

// segmentsFrom returns how many packets from first on can be one message. All have the
// same length, but the last one may be shorter. All are for one queue pair, because on
// this host the kernel selects the receiving socket once for the message.
func (s *sender) segmentsFrom(first int) int {
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

// moveToFront removes the packets before first, and moves the others to the front.
func (s *sender) moveToFront(first int) {
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
