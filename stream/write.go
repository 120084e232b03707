package stream

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

// maxSegment is the size in bytes of the longest data message. Longer messages would
// reach the reader later, because the reader learns of a message when it is complete.
// Arbitrary.
const maxSegment = 64 << 10

// A sentBytes counts the bytes that were written and are not confirmed.
type sentBytes struct {
	total     uint64 // bytes that were written
	confirmed uint64 // bytes of which the peer has confirmed the receipt
	// reported is the value of total after the last data message whose completion is
	// reported.
	reported uint64
	// unreported is the number of data messages after the last one whose completion is
	// reported.
	unreported int
	blocked    bool // true if Write has returned ErrWouldBlock and OnWritable must follow
}

// unconfirmed returns the number of bytes that are not confirmed.
func (b *sentBytes) unconfirmed() int { return int(b.total - b.confirmed) }

// Write writes a copy of b to the stream. The bytes are sent at the end of the loop's
// turn, or by Flush. The result is the number of bytes that were written. If it is less
// than len(b), the error is or matches:
//
//   - ErrWouldBlock: the peer has to read first, or too many bytes are not confirmed.
//     OnWritable follows.
//   - ErrClosed: this side has ended its writing direction, or the stream has ended.
//   - ErrPeerClosed: the peer has closed the stream.
//   - syscall.Errno: there is no memory for the copy.
func (s *Stream) Write(b []byte) (n int, err error) {
	if err := s.writeError(); err != nil {
		return 0, err
	}
	for n < len(b) {
		to := s.out.Next()
		size := min(len(b)-n, int(min(to.Length, maxSegment)), s.room())
		if size == 0 {
			s.sent.blocked = true
			return n, ErrWouldBlock
		}
		if err := s.sendData(b[n:n+size], reactor.Remote{Addr: to.Addr, RKey: to.Key}); err != nil {
			return n, err
		}
		n += size
	}
	return n, nil
}

// Flush sends what was written at once, instead of at the end of the loop's turn.
func (s *Stream) Flush() { s.conn.Flush() }

// room returns how many bytes may be written before the peer confirms earlier ones.
func (s *Stream) room() int {
	if s.conn.InFlight()-s.controls >= s.dataPlaces() {
		return 0
	}
	return s.buffers.Send - s.sent.unconfirmed()
}

// dataPlaces returns how many data messages may be outstanding.
func (s *Stream) dataPlaces() int { return s.conn.MaxInFlight() - controlPlaces }

// sendData sends one data message. Its completion is reported if a quarter of the bytes
// or messages that may be outstanding was sent since the last message with a reported
// completion.
func (s *Stream) sendData(b []byte, to reactor.Remote) error {
	o := reactor.SendOptions{HasImm: true, Imm: rsocket.Message{Kind: rsocket.Data, Value: uint32(len(b))}.Imm()}
	end := s.sent.total + uint64(len(b))
	o.Tag = end
	o.Quiet = int(end-s.sent.reported) < (s.buffers.Send+3)/4 && s.sent.unreported < s.dataPlaces()/4
	if err := s.conn.WriteBytes(b, to, o); err != nil {
		return err
	}
	s.out.Sent(len(b))
	s.sent.total = end
	s.sent.unreported++
	if !o.Quiet {
		s.sent.reported, s.sent.unreported = end, 0
	}
	return nil
}

// controlTag is a bit in the tag of messages that are no data. The other bits are the
// value of sentBytes.total when the message was sent.
const controlTag = 1 << 63

// sendControl sends a message that is no data. The caller checks that there is a place.
// If there is no memory for the message, sendControl ends the stream.
func (s *Stream) sendControl(payload []byte, to reactor.Remote, m rsocket.Message) {
	o := reactor.SendOptions{HasImm: true, Imm: m.Imm(), Tag: controlTag | s.sent.total}
	switch err := s.conn.WriteBytes(payload, to, o); {
	case err == nil:
		s.controls++
	case !errors.Is(err, ErrClosed): // After ErrClosed, OnClose reports why the connection ends.
		s.fail(err)
	}
}

// completed handles the completion of a message.
func (s *Stream) completed(op reactor.Op, err error) {
	if err != nil {
		return // OnClose follows.
	}
	s.sent.confirmed = op.Tag &^ controlTag
	if op.Tag&controlTag != 0 {
		s.controls--
		s.sendOffers()
		s.sendEnd()
	}
	s.writable()
}

// writable calls OnWritable if Write has returned ErrWouldBlock and more can be written
// now.
func (s *Stream) writable() {
	if s.sent.blocked && s.writing == outOpen && s.out.Next().Length > 0 && s.room() > 0 {
		s.sent.blocked = false
		s.handler.OnWritable(s)
	}
}
