package stream_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// An endRecord has what a side has learned about the end of its stream.
type endRecord struct {
	data   string
	ends   int // number of calls of OnEnd
	closes int // number of calls of OnClose
	err    error
}

// connectRecorded opens a stream and records what each side learns. The callbacks do
// nothing else.
func connectRecorded(t *testing.T, p path) (e *pair, client, server *endRecord) {
	client, server = &endRecord{}, &endRecord{}
	return connect(t, p, client.hooks(), server.hooks(), stream.Buffers{}), client, server
}

// hooks returns a Handler that records what a side learns.
func (r *endRecord) hooks() *hooks {
	return &hooks{
		data: func(s *stream.Stream) {
			b := make([]byte, s.Len())
			r.data += string(b[:s.Read(b)])
		},
		end:   func(*stream.Stream) { r.ends++ },
		close: func(_ *stream.Stream, err error) { r.closes++; r.err = err },
	}
}

func write(t *testing.T, s *stream.Stream, text string) {
	n, err := s.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// TestHalfClose checks that a side can write after the other side has ended its writing
// direction, and that the stream ends without an error when both directions have ended.
func TestHalfClose(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		write(t, e.dialed, "request")
		require.NoError(t, e.dialed.CloseWrite())
		require.ErrorIs(t, e.dialed.CloseWrite(), stream.ErrClosed)
		_, err := e.dialed.Write([]byte("more"))
		require.ErrorIs(t, err, stream.ErrClosed)
		e.drive(t, func() bool { return server.ends == 1 })
		require.Equal(t, "request", server.data)
		require.True(t, e.accepted.Ended())
		write(t, e.accepted, "answer")
		require.NoError(t, e.accepted.CloseWrite())
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{data: "answer", ends: 1, closes: 1}, *client)
		require.Equal(t, endRecord{data: "request", ends: 1, closes: 1}, *server)
		require.ErrorIs(t, e.dialed.Close(), stream.ErrClosed)
	})
}

// TestBothCloseWrite checks that the stream ends without an error if both sides end their
// writing directions at the same time.
func TestBothCloseWrite(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		write(t, e.dialed, "to the server")
		write(t, e.accepted, "to the client")
		require.NoError(t, e.dialed.CloseWrite())
		require.NoError(t, e.accepted.CloseWrite())
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{data: "to the client", ends: 1, closes: 1}, *client)
		require.Equal(t, endRecord{data: "to the server", ends: 1, closes: 1}, *server)
	})
}

// TestClose checks that the peer gets everything that was written before Close, and then
// learns that the stream was closed.
func TestClose(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		write(t, e.dialed, "the last words")
		require.NoError(t, e.dialed.Close())
		require.ErrorIs(t, e.dialed.Close(), stream.ErrClosed)
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{closes: 1}, *client)
		require.Equal(t, endRecord{data: "the last words", ends: 1, closes: 1, err: stream.ErrPeerClosed}, *server)
		_, err := e.accepted.Write([]byte("more"))
		require.ErrorIs(t, err, stream.ErrPeerClosed)
	})
}

// TestCloseAfterCloseWrite checks that Close of one side after CloseWrite of the other is
// an end without an error for both.
func TestCloseAfterCloseWrite(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		require.NoError(t, e.accepted.CloseWrite())
		e.drive(t, func() bool { return client.ends == 1 })
		write(t, e.dialed, "the last words")
		require.NoError(t, e.dialed.Close())
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{ends: 1, closes: 1}, *client)
		require.Equal(t, endRecord{data: "the last words", ends: 1, closes: 1}, *server)
	})
}

// TestAbort checks that the peer of a side that aborts gets a *ResetError.
func TestAbort(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		cause := errors.New("cause")
		require.NoError(t, e.dialed.Abort(cause))
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{closes: 1, err: cause}, *client)
		require.Equal(t, 0, server.ends)
		var reset *stream.ResetError
		require.ErrorAs(t, server.err, &reset)
		require.ErrorIs(t, server.err, syscall.ECONNRESET)
		require.ErrorIs(t, server.err, reactor.ErrPeerClosed)
	})
}

// TestBothClose checks that a stream ends without an error if both sides close it at the
// same time.
func TestBothClose(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		write(t, e.dialed, "unread")
		write(t, e.accepted, "unread")
		require.NoError(t, e.dialed.Close())
		require.NoError(t, e.accepted.Close())
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{closes: 1}, *client)
		require.Equal(t, endRecord{closes: 1}, *server)
	})
}

// TestCloseUnconfirmed checks that Close succeeds if the peer has closed the stream at
// the same time and its queue pair confirms nothing any more, as those of rsocket(7).
func TestCloseUnconfirmed(t *testing.T) {
	e, client, _ := connectRecorded(t, path{})
	server, p := &endRecord{}, &rawPeer{}
	l := newLoop(t, path{}, nil)
	var accepted *stream.Stream
	ln, err := stream.Listen(e.client.Engine(), loopback, &hooks{
		open:  func(s *stream.Stream) { accepted = s },
		close: func(_ *stream.Stream, err error) { server.closes++; server.err = err },
	}, nil)
	require.NoError(t, err)
	require.NoError(t, l.Engine().Dial(ln.Addr(), &reactor.DialOptions{Handler: p, ImmediatesOnly: true, PrivateDataFor: helloWithMemory}))
	both := &pair{client: e.client, server: l}
	both.drive(t, func() bool { return p.conn != nil && accepted != nil && accepted.Conn().Stats().InFlight == 0 })
	p.imm(t, 7<<29) // DISCONNECT
	p.conn.Flush()
	require.NoError(t, p.conn.Abort(nil))
	(&pair{client: l, server: l}).drive(t, func() bool { return p.closed })
	require.NoError(t, accepted.Close()) // The loop has not seen the message of the peer.
	both.drive(t, func() bool { return server.closes == 1 })
	require.NoError(t, server.err)
	require.Zero(t, client.closes)
}

// TestStop checks that streams end properly when the engine of one side stops, and that
// the peer gets all bytes.
func TestStop(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		write(t, e.dialed, "the last words")
		e.client.Engine().Stop()
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		require.Equal(t, endRecord{closes: 1}, *client)
		require.Equal(t, endRecord{data: "the last words", ends: 1, closes: 1, err: server.err}, *server)
		require.NotErrorIs(t, server.err, syscall.ECONNRESET)
	})
}

// TestUnreadBytesInOnClose checks that bytes that were not read can still be read in
// OnClose, also if the peer has closed. From OnEnd on, no bytes can be written.
func TestUnreadBytesInOnClose(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		unread := ""
		closed := false
		server := &hooks{
			data: func(*stream.Stream) {},
			end: func(s *stream.Stream) {
				_, err := s.Write([]byte("late"))
				require.ErrorIs(t, err, stream.ErrPeerClosed)
			},
			close: func(s *stream.Stream, _ error) { unread, closed = string(s.Bytes()), true },
		}
		e := connect(t, p, &hooks{}, server, stream.Buffers{})
		write(t, e.dialed, "unread")
		require.NoError(t, e.dialed.Close())
		e.drive(t, func() bool { return closed })
		require.Equal(t, "unread", unread)
	})
}

// TestResetAfterEnd checks that a side whose peer has ended its writing direction, and
// has then reset the stream, gets an error.
func TestResetAfterEnd(t *testing.T) {
	onPaths(t, func(t *testing.T, p path) {
		e, client, server := connectRecorded(t, p)
		require.NoError(t, e.dialed.CloseWrite())
		e.drive(t, func() bool { return server.ends == 1 })
		write(t, e.accepted, "a part of the answer")
		require.NoError(t, e.dialed.Abort(nil))
		e.drive(t, func() bool { return client.closes == 1 && server.closes == 1 })
		var reset *stream.ResetError
		require.ErrorAs(t, server.err, &reset)
	})
}

// TestAbortTwice checks that a second Abort does not replace the reason of the first.
func TestAbortTwice(t *testing.T) {
	e, client, _ := connectRecorded(t, path{})
	first := errors.New("the first reason")
	require.NoError(t, e.dialed.Abort(first))
	require.ErrorIs(t, e.dialed.Abort(errors.New("the second reason")), stream.ErrClosed)
	e.drive(t, func() bool { return client.closes == 1 })
	require.Equal(t, first, client.err)

	e, client, _ = connectRecorded(t, path{})
	require.NoError(t, e.dialed.Conn().Abort(first))
	require.ErrorIs(t, e.dialed.Abort(errors.New("the second reason")), stream.ErrClosed)
	e.drive(t, func() bool { return client.closes == 1 })
	var reset *stream.ResetError
	require.ErrorAs(t, client.err, &reset)
	require.ErrorIs(t, client.err, first)
}

// TestUnreadBytes checks that bytes that were not read are gone after OnClose.
func TestUnreadBytes(t *testing.T) {
	closes := 0
	server := &hooks{data: func(*stream.Stream) {}, end: func(*stream.Stream) {}, close: func(s *stream.Stream, _ error) {
		require.Equal(t, "unread", string(s.Bytes()))
		closes++
	}}
	e := connect(t, path{}, &hooks{}, server, stream.Buffers{})
	write(t, e.dialed, "unread")
	require.NoError(t, e.dialed.Close())
	e.drive(t, func() bool { return closes == 1 })
	require.Zero(t, e.accepted.Len())
	require.Empty(t, e.accepted.Bytes())
	require.Zero(t, e.accepted.Read(make([]byte, 10)))
	require.Zero(t, e.accepted.Discard(10))
}
