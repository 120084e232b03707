package stream

import (
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
)

// An outState says whether this side may still write. The states follow each other in
// this order, and a state may be skipped.
type outState uint8

const (
	// outOpen: this side may write. A stream begins in this state.
	outOpen outState = iota
	// outEnding: CloseWrite was called, and the message Shutdown waits for a place in the
	// send queue.
	outEnding
	// outEnded: the message Shutdown was sent. This side still sends credit messages.
	outEnded
	// outClosing: Close was called, and the message Disconnect waits for a place in the
	// send queue. This side sends no other message any more.
	outClosing
	// outClosed: the reactor.Conn is closing or has ended, or waits in linger(), after this
	// side has ended its direction. This side sends no message any more.
	outClosed
	// outAborted: the same, but this side has not ended its direction.
	outAborted
)

// over reports whether this side sends no more messages, except Disconnect.
func (o outState) over() bool { return o >= outClosing }

// connOver reports whether the state is outClosed or outAborted.
func (o outState) connOver() bool { return o >= outClosed }

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

// Ended reports whether the peer has ended its writing direction. Bytes that have arrived
// before can still be read.
func (s *Stream) Ended() bool { return s.reading != inOpen }

// CloseWrite ends the writing direction. The peer gets all bytes that were written, and
// then OnEnd or its equivalent. This side can still read. The error of a second call, and
// of a call after the end of the stream, matches ErrClosed.
func (s *Stream) CloseWrite() error {
	if s.writing != outOpen {
		return ErrClosed
	}
	if s.reading != inOpen {
		// Both directions have ended, so the stream is over (rshutdown in rsocket(7)).
		return s.Close()
	}
	s.writing = outEnding
	s.sendEnd()
	return nil
}

// Close ends both directions. The peer gets all bytes that were written. Bytes that were
// not read are lost. OnClose follows when the peer has confirmed everything, or after
// reactor.Config.Limits.DrainTimeout. The error of a second call matches ErrClosed.
func (s *Stream) Close() error {
	if s.writing.over() {
		return ErrClosed
	}
	if s.writing >= outEnded && s.reading != inOpen || s.reading == inClosed {
		s.closeConn() // The peer knows that the stream has ended, and needs no message.
		return nil
	}
	s.writing = outClosing
	s.sendEnd()
	return nil
}

// Abort ends the stream at once. Bytes that the peer has not confirmed may be lost.
// OnClose of this side gets the cause, or reactor.ErrAborted if the cause is nil. OnClose
// of the peer gets a *ResetError. If the stream has ended, the error matches ErrClosed.
func (s *Stream) Abort(cause error) error {
	if cause == nil {
		cause = reactor.ErrAborted
	}
	if err := s.conn.Abort(cause); err != nil {
		return err
	}
	if s.cause == nil {
		s.cause = cause
	}
	s.enterOver()
	return nil
}

// sendEnd sends the message Shutdown or Disconnect if it waits and the send queue has a
// place.
func (s *Stream) sendEnd() {
	if s.controls >= controlPlaces {
		return
	}
	switch s.writing {
	case outEnding:
		s.writing = outEnded
		s.sendControl(nil, reactor.Remote{}, rsocket.Message{Kind: rsocket.Shutdown})
		if s.reading != inOpen {
			s.closeConn()
		}
	case outClosing:
		s.sendControl(nil, reactor.Remote{}, rsocket.Message{Kind: rsocket.Disconnect})
		s.closeConn()
	}
}

// closeConn closes the connection when the peer has confirmed everything. If the peer has
// closed the stream, its queue pair may confirm nothing any more, so closeConn does not
// wait for that.
func (s *Stream) closeConn() {
	if s.reading == inClosed {
		s.linger()
		return
	}
	s.enterOver()
	_ = s.conn.Close() // It fails if the connection is closing already.
}

// lingerTimeout limits linger(). It has room for four attempts with the default of
// reactor.Config.Transport.AckTimeout.
const lingerTimeout = 5 * time.Second

// linger ends a stream that the peer has closed. The stream is over for the application,
// but the connection stays until the peer disconnects: if an acknowledgement was lost, the
// peer repeats its last messages. If the connection ended before they are confirmed, the
// peer would have to report an error.
func (s *Stream) linger() {
	if s.writing < outEnding {
		s.cause = ErrPeerClosed
	}
	s.enterOver()
	s.conn.SetTimeout(lingerTimeout)
}

// enterOver sets the state outClosed or outAborted.
func (s *Stream) enterOver() {
	switch {
	case s.writing == outOpen, s.writing == outEnding:
		s.writing = outAborted
	default:
		s.writing = max(s.writing, outClosed)
	}
}

// peerEnded handles the message Shutdown or Disconnect of the peer.
func (s *Stream) peerEnded(state inState) {
	first := s.reading == inOpen
	s.reading = max(s.reading, state)
	if first {
		s.handler.OnEnd(s)
	}
	if s.reading == inClosed && !s.writing.connOver() || s.writing == outEnded {
		s.closeConn() // Both directions have ended.
	}
	if s.reading == inClosed {
		s.reportClose(nil)
	}
}

// reportClose calls OnClose, and releases the memory of the stream. The parameter err is
// the reason for the end of the connection, or nil.
func (s *Stream) reportClose(err error) {
	s.closeReported = true
	s.handler.OnClose(s, s.closeResult(err))
	s.in.Clear()
	s.release()
}

// receivedAtEnd handles a message after this side has closed the stream. The peer may
// have closed it at the same time. The queue pair of such a peer may confirm nothing any
// more, so the connection then ends with an error, which closeResult does not pass on.
func (s *Stream) receivedAtEnd(imm uint32) {
	if m, err := rsocket.Decode(imm); err == nil && m.Kind == rsocket.Disconnect {
		s.reading = inCrossed
	}
}

// writeError returns the reason why this side can not write, or nil.
func (s *Stream) writeError() error {
	switch {
	case s.reading == inClosed:
		return ErrPeerClosed
	case s.writing == outOpen:
		return nil
	}
	return ErrClosed
}

// fail ends the connection after a violation of the protocol by the peer.
func (s *Stream) fail(err error) { _ = s.Abort(err) }

// closeResult returns the error for Handler.OnClose, after the connection has ended with
// err.
func (s *Stream) closeResult(err error) error {
	switch {
	case s.cause != nil:
		return s.cause
	case err == nil:
		return nil // The peer has confirmed everything.
	case s.reading == inCrossed && s.sent.unconfirmed() > 0:
		return ErrPeerClosed
	case s.reading >= inClosed:
		return nil // Both directions had ended.
	case s.reading == inEnded && s.writing == outClosed && (s.sent.unconfirmed() == 0 || errors.Is(err, reactor.ErrPeerClosed)):
		// Both directions had ended. A peer that has received the end may disconnect before
		// its last acknowledgement arrives.
		return nil
	}
	return &ResetError{err}
}
