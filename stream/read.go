package stream

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

// An inState says whether the peer may still write.
type inState uint8

const (
	// inOpen: the peer may write. A stream begins in this state.
	inOpen inState = iota
	// inEnded: the peer has ended its writing direction, with the message Shutdown.
	inEnded
	// inClosed: the peer has closed the stream, with the message Disconnect. Its queue pair
	// may confirm nothing any more.
	inClosed
	// inCrossed: the peer has closed the stream as in inClosed, after this side has called
	// Close.
	inCrossed
)

// Len returns the number of bytes that have arrived and were not discarded.
func (s *Stream) Len() int { return s.in.Len() }

// Bytes returns bytes that have arrived, the oldest first. If they wrap around the end of
// the ring, the result is shorter than Len: Discard makes the others available. The slice
// is in the ring. It is valid until Discard, and at most until OnClose returns. A peer
// that violates the protocol can change the bytes in the meantime.
func (s *Stream) Bytes() []byte { return s.in.Bytes() }

// Discard removes the first n bytes, at most Len, and returns how many it has removed.
// The peer may then write to their memory.
func (s *Stream) Discard(n int) int {
	n = max(0, min(n, s.in.Len()))
	s.in.Read(n)
	s.sendOffers()
	return n
}

// Read copies bytes that have arrived to b, removes them, and returns their number. The
// number is 0 if no bytes have arrived.
func (s *Stream) Read(b []byte) (n int) {
	for n < len(b) && s.in.Len() > 0 {
		part := copy(b[n:], s.in.Bytes())
		s.in.Read(part)
		n += part
	}
	s.sendOffers()
	return n
}

// Ended reports whether the peer has ended its writing direction. Bytes that have arrived
// before can still be read.
func (s *Stream) Ended() bool { return s.reading != inOpen }

// received handles a message of the peer.
func (s *Stream) received(msg reactor.Message) {
	imm, ok := msg.Imm()
	if s.writing.over() {
		s.receivedAtEnd(imm)
		return
	}
	if !ok || !msg.IsWriteImm() {
		s.fail(fmt.Errorf("%w: a message without immediate data", ErrProtocol))
		return
	}
	m, err := rsocket.Decode(imm)
	if err == nil {
		err = s.take(m)
	}
	if err != nil {
		s.fail(err)
	}
}

// receivedAtEnd handles a message after this side has closed the stream. The peer may
// have closed it at the same time. The queue pair of such a peer may confirm nothing any
// more, so the connection then ends with an error, which closeResult does not pass on.
func (s *Stream) receivedAtEnd(imm uint32) {
	if m, err := rsocket.Decode(imm); err == nil && m.Kind == rsocket.Disconnect {
		s.reading = inCrossed
	}
}

// take handles a decoded message.
func (s *Stream) take(m rsocket.Message) error {
	switch m.Kind {
	case rsocket.Data:
		if s.reading != inOpen {
			return fmt.Errorf("%w: data after the end of the stream", ErrProtocol)
		}
		if err := s.in.Data(m.Value); err != nil {
			return err
		}
		s.handler.OnData(s)
	case rsocket.Credit:
		if err := s.out.Credit(m.Value); err != nil {
			return err
		}
		s.writable()
	case rsocket.Mapping:
		return fmt.Errorf("%w: a mapping, but this side has no memory for mappings", ErrProtocol)
	case rsocket.Shutdown:
		s.peerEnded(inEnded)
	case rsocket.Disconnect:
		s.peerEnded(inClosed)
	}
	return nil
}

// sendOffers sends the credit messages that are due, which let the peer write more.
func (s *Stream) sendOffers() {
	if s.reading != inOpen || s.writing.over() {
		return // The peer writes no more, or this side sends no more messages.
	}
	for s.controls < controlPlaces {
		o, ok := s.in.Offer()
		if !ok {
			return
		}
		var payload []byte
		if o.HasSegment {
			payload = o.Segment[:]
		}
		s.sendControl(payload, reactor.Remote{Addr: o.To.Addr, RKey: o.To.Key}, o.Message)
	}
}
