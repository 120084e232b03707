//go:build linux

package udp

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A sender queues packets, and sends many of them with one system call. It never blocks.
// A message is one packet, or several packets of the same length (udp(7), UDP_SEGMENT).
type sender struct {
	shared  connectedSocket // socket for the destinations without a connected socket
	batch   *batch
	packets []wire.Packet  // packet in each buffer of the batch
	dests   []*destination // destination of each queued packet
	// value of Route.PeerSocket for each queued packet
	peerSockets []uint16
	// number of queued packets; packet i is in buffer i
	queued       int
	segmentation bool // true if the sender may use UDP_SEGMENT
	// True if the sender may open a connected socket. The sender opens at most one
	// between two polls, because opening a socket takes as long as sending 20 packets.
	mayConnect bool
	// true after probeIPID has lost a probe; the sender opens no more connected sockets
	connectDisabled bool
	counts          *counters.Set
	tap             *capture.Tap // records the packets that were sent; may be nil
}

const (
	// maxSegments is the largest number of packets in one message with UDP_SEGMENT,
	// before Linux 6.9.
	maxSegments = 64
	// maxSegmented is the largest number of bytes in one message over IPv4.
	maxSegmented = 65507
)

// newSender returns a sender for the shared socket fd. The parameter size is the largest
// length of a packet in bytes.
func newSender(fd, packets, size int, counts *counters.Set) sender {
	return sender{
		shared: connectedSocket{fd: fd}, batch: newBatch(packets, size), packets: make([]wire.Packet, packets),
		dests: make([]*destination, packets), peerSockets: make([]uint16, packets),
		segmentation: canSegment(fd), mayConnect: true, counts: counts,
	}
}

// canSegment reports whether the kernel supports UDP_SEGMENT. A network interface
// without support is detected later; see handleError.
func canSegment(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// buffer returns memory for the next packet. The memory is valid until put(). The result
// is nil if all buffers are in use and the kernel accepts no packets.
func (s *sender) buffer() []byte {
	if s.queued == len(s.packets) {
		s.flush()
	}
	if s.queued == len(s.packets) {
		return nil
	}
	return s.batch.buffer(s.queued)
}

// put queues a packet that is in the memory from the last call of buffer(). The packet
// has no ICRC yet. The parameter peerSocket is Route.PeerSocket.
func (s *sender) put(p wire.Packet, to *destination, peerSocket uint16) {
	s.batch.setLength(s.queued, len(p.Bytes()))
	s.packets[s.queued], s.dests[s.queued], s.peerSockets[s.queued] = p, to, peerSocket
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

// blocked is called after flush(). It returns the socket of the first packet that the
// kernel has not accepted. It returns nil if no packet is queued.
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
		if s.tap != nil {
			s.record(before, first)
		}
		if err != nil && !s.handleError(err, &first) {
			break
		}
		if err == nil && sent < messages && out.countsIDs && !out.full() {
			// The kernel has refused a message although the send buffer is not full. The
			// identification of the next message is then unknown, so the connected
			// socket is closed.
			s.dests[first].disconnect()
		}
	}
	s.moveToFront(first)
}

// record passes the packets with the indices from to until-1, which were sent, to the tap.
func (s *sender) record(from, until int) {
	for i := from; i < until; i++ {
		to := s.dests[i]
		h := capture.Header{From: to.local, To: to.peer(), TrafficClass: to.header.trafficClass, HopLimit: to.header.hopLimit}
		if to.socket != nil {
			h.From = to.socket.local
		}
		s.tap.Packet(capture.Outbound, &h, s.packets[i].Bytes())
	}
}

// handleError handles the error of a message. The parameter first is the index of the
// message's first packet. If the message can never be sent, handleError drops its packets
// and increases first. It returns true if flush() may send more messages.
func (s *sender) handleError(err error, first *int) bool {
	n := s.batch.count(0)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false
	case s.dests[*first].socket != nil:
		// The error may be about an earlier packet (udp(7), ECONNREFUSED). So this
		// message is sent once more, through the shared socket.
		s.dests[*first].disconnect()
	case errors.Is(err, unix.ENOBUFS):
		return false
	case n > 1 && (errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL)):
		// The network interface can not compute checksums, or can not cut a message of
		// this length into segments.
		s.segmentation = false
	default:
		*first += n
		s.counts.Add(counters.SendErr, uint64(n))
	}
	return true
}

// gather makes messages from the queued packets, beginning with index first. It stops at
// the first packet that must be sent through another socket than out. It returns the
// number of messages.
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

// segmentsFrom returns how many queued packets can be sent as one message, beginning
// with index first. One socket of the peer receives the whole message.
func (s *sender) segmentsFrom(first int) int {
	if !s.segmentation {
		return 1
	}
	size := len(s.packets[first].Bytes())
	n, total := 1, size
	for i := first + 1; i < s.queued && n < maxSegments; i++ {
		next := len(s.packets[i].Bytes())
		if next > size || total+next > maxSegmented || !s.oneReceiver(first, i) {
			break
		}
		n, total = n+1, total+next
		if next < size {
			break
		}
	}
	return n
}

// oneReceiver reports whether two queued packets go to the same socket of the peer.
func (s *sender) oneReceiver(i, j int) bool {
	return s.dests[i] == s.dests[j] && (s.packets[i].BTH().DestQP() == s.packets[j].BTH().DestQP() ||
		s.peerSockets[i] != 0 && s.peerSockets[i] == s.peerSockets[j])
}

// moveToFront removes the packets below the given index from the queue.
func (s *sender) moveToFront(first int) {
	if first == 0 {
		return
	}
	n := s.queued - first
	for i := range n {
		s.batch.swap(i, first+i)
		s.packets[i], s.packets[first+i] = s.packets[first+i], wire.Packet{}
		s.dests[i], s.peerSockets[i] = s.dests[first+i], s.peerSockets[first+i]
	}
	clear(s.dests[n:s.queued])
	s.queued = n
}
