package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestImmediatesOnlyHasNoLongMessages checks that a connection with the option
// ImmediatesOnly has no long messages. Send of a long message returns a
// *verbs.ParamError, and the connection stays usable.
func TestImmediatesOnlyHasNoLongMessages(t *testing.T) {
	received := 0
	p := connectImmediates(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}, longConfig())
	require.False(t, reactor.AgreesOnLong(p.dialed))
	require.False(t, reactor.AgreesOnLong(p.accepted))
	region := alloc(t, p.dialed, 1<<20, verbs.AccessRemoteRead)
	buffer, err := p.dialed.Lease(1 << 20)
	require.NoError(t, err)
	require.NoError(t, buffer.SetLen(1<<20))
	for _, err := range []error{
		p.dialed.Send(region.Bytes(), nil),
		p.dialed.SendBuffer(buffer, nil),
		p.dialed.SendV(nil, reactor.Piece{Region: region, Length: 1 << 20}),
	} {
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.EqualValues(t, 4096, param.Limit)
	}
	require.NoError(t, buffer.Release())
	require.NoError(t, p.dialed.Send(nil, &reactor.OpOptions{Imm: 1, HasImm: true}))
	p.drive(t, func() bool { return received == 1 })
}

// TestReceiverThatDoesNotRead sends long messages to a loop that does not run. Send
// accepts 16 of them, so the memory that they occupy at the sender is bounded. InFlight
// counts each message once.
func TestReceiverThatDoesNotRead(t *testing.T) {
	onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		const size = 64 << 10
		failed := 0
		p := connect(&hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) {
			require.Error(t, err)
			failed++
		}}, &hooks{}, longConfig())
		// The limit includes 1 MiB, because the loop may also allocate a chunk of buffers for
		// other messages.
		before, limit := p.client.Stats().BufferBytes, uint64(reactor.LongWindow*size+1<<20)
		data, sent := make([]byte, size), 0
		for turns := range 200 {
			err := p.dialed.Send(data, &reactor.OpOptions{Notify: true})
			if err == nil {
				sent++
			} else {
				require.ErrorIs(t, err, reactor.ErrWouldBlock)
				require.Equal(t, reactor.LongWindow, sent, "after %d turns", turns)
			}
			require.Equal(t, sent, p.dialed.Stats().InFlight)
			_, _ = p.client.RunOnce(0)
		}
		require.Equal(t, reactor.LongWindow, sent)
		require.LessOrEqual(t, p.client.Stats().BufferBytes, before+limit)
		require.NoError(t, p.dialed.Abort(nil))
		p.closed(t)
		require.Equal(t, sent, failed)
	})
}

// TestCheckRoomBehindLongMessages checks that CheckRoom counts the messages that may follow a
// long message which the receiver has not read, and that OnWritable is called when it has.
func TestCheckRoomBehindLongMessages(t *testing.T) {
	onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		writable := 0
		p := connect(&hooks{writable: func(c *reactor.Conn) {
			writable++
			require.NoError(t, c.CheckRoom(3))
		}}, &hooks{}, longConfig())
		require.NoError(t, p.dialed.Send(make([]byte, 64<<10), nil))
		for range reactor.LongWindow - 3 {
			require.NoError(t, p.dialed.Send(nil, &reactor.OpOptions{Notify: true}))
		}
		require.NoError(t, p.dialed.CheckRoom(2))
		require.Equal(t, reactor.ErrWouldBlock, p.dialed.CheckRoom(3))
		p.drive(t, func() bool { return writable > 0 })
		require.Equal(t, 1, writable)
	})
}
