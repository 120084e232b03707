//go:build linux

package udp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A sender queues packets, and sends many of them with one system call. It never blocks.
// Consecutive packets of the same length to the same queue pair become one message, which
// the kernel or the network card cuts into datagrams (udp(7), UDP_SEGMENT).
type sender struct {
	shared  connectedSocket // sends to destinations without a connected socket
	batch   *batch
	packets []wire.Packet  // for each buffer of the batch, the packet in it
	dests   []*destination // for each packet, its destination
	// queued is the number of packets that wait to be sent. They are in the first
	// buffers.
	queued       int
	segmentation bool // The sender may use UDP_SEGMENT.
	// mayConnect allows one destination to get a connected socket. Each poll of the owner
	// sets it again, because opening and connecting a socket takes as long as sending 20
	// packets.
	mayConnect bool
	// connectDisabled means that a probe was lost. No destination gets a connected socket
	// any more.
	connectDisabled bool
	counts          *counters.Set
}

const (
	// maxSegments and maxSegmented are the largest number of packets and of bytes in one
	// message with UDP_SEGMENT. Kernels before 6.9 accept 64 segments. A UDP datagram
	// over IPv4 has at most 65507 bytes.
	maxSegments  = 64
	maxSegmented = 65507
)

// newSender returns a sender for the shared socket fd. The parameter packets is the
// largest number of packets in the queue. The parameter size is the largest length of a
// packet in bytes.
func newSender(fd, packets, size int, counts *counters.Set) sender {
	return sender{
		shared: connectedSocket{fd: fd}, batch: newBatch(packets, size),
		packets: make([]wire.Packet, packets), dests: make([]*destination, packets),
		segmentation: canSegment(fd), mayConnect: true, counts: counts,
	}
}

// canSegment reports whether the kernel supports UDP_SEGMENT. Even then the network
// interface may not support it. In that case sending a message with segments fails, and
// handleError turns segmentation off.
func canSegment(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// buffer returns memory for the next packet. The memory is valid until put. buffer
// returns nil if all buffers are in use and the kernel accepts no packets now.
func (s *sender) buffer() []byte {
	if s.queued == len(s.packets) {
		s.flush()
	}
	if s.queued == len(s.packets) {
		return nil
	}
	return s.batch.buffer(s.queued)
}

// put queues a packet that was built at the beginning of the memory from buffer. The
// packet is complete except for its ICRC. A later call of flush sends it.
func (s *sender) put(p wire.Packet, to *destination) {
	s.batch.setLength(s.queued, len(p.Bytes()))
	s.packets[s.queued], s.dests[s.queued] = p, to
	s.queued++
	if tried, err := to.countPacket(s.mayConnect); tried {
		s.mayConnect, s.connectDisabled = false, errors.Is(err, errProbeLost)
	}
}

// socketFor returns the socket that sends the queued packet with the given index.
func (s *sender) socketFor(packet int) *connectedSocket {
	if o := s.dests[packet].socket; o != nil {
		return o
	}
	return &s.shared
}

// blocked returns the socket for the first packet in the queue, or nil if the queue is
// empty. After flush, a packet is left in the queue only because this socket accepts no
// more packets.
func (s *sender) blocked() *connectedSocket {
	if s.queued == 0 {
		return nil
	}
	return s.socketFor(0)
}

// flush sends the queued packets, until the kernel accepts no more.
func (s *sender) flush() {
	first := 0 // index of the first packet that was not sent yet
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
			// sendmmsg(2) has accepted some messages and refused the next one, and does
			// not return the error of the refused message. The kernel may have used an
			// identification for that message. The next identification of the connected
			// socket is therefore unknown, and the socket is closed.
			s.dests[first].disconnect()
		}
	}
	s.moveToFront(first)
}

// handleError handles the error of a message. The parameter first is the index of the
// message's first packet. handleError returns true if flush shall continue. If the
// message can never be sent, handleError skips and counts its packets.
func (s *sender) handleError(err error, first *int) bool {
	n := s.batch.count(0)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case s.dests[*first].socket != nil:
		// The error may be about an earlier packet (udp(7), ECONNREFUSED). The
		// identification of the next message on the connected socket is not known, so the
		// shared socket sends this packet.
		s.dests[*first].disconnect()
	case errors.Is(err, unix.ENOBUFS):
		return false
	case n > 1 && (errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL)):
		// The network interface can not compute checksums, or the segments are too long
		// for it. From now on the sender makes each packet a message of its own.
		s.segmentation = false
	default:
		*first += n
		s.counts.Add(counters.SendErr, uint64(n))
	}
	return true
}

// gather makes messages of consecutive packets, and computes their ICRCs. All of them are
// sent through the given socket. The parameter first is the index of the first packet.
// gather returns the number of messages.
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

// segmentsFrom returns how many of the queued packets can be sent as one message. The
// parameter first is the index of the first of them. These packets have the same length,
// except that the last one may be shorter. They are for the same queue pair: if the peer
// is on this host, the kernel selects one receiving socket for the whole message.
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

// moveToFront removes the packets with an index below first from the queue, and moves the
// others to the front.
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
