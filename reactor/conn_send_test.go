package reactor_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestBackpressure checks that a full send queue refuses sends, and that OnWritable is
// called once when there is room.
func TestBackpressure(t *testing.T) {
	const limit, total = 8, 1000
	var next, writable, received uint64
	var client *hooks
	fill := func(c *reactor.Conn) {
		for next < total {
			err := c.Send(binary.LittleEndian.AppendUint64(nil, next), nil)
			if err != nil {
				require.Equal(t, reactor.ErrWouldBlock, err)
				return
			}
			next++
		}
	}
	client = &hooks{
		open: fill,
		writable: func(c *reactor.Conn) {
			writable++
			require.LessOrEqual(t, c.Stats().InFlight, limit/2)
			fill(c)
		},
	}
	server := &hooks{message: func(_ *reactor.Conn, msg reactor.Message) {
		require.Equal(t, received, binary.LittleEndian.Uint64(msg.Data()))
		received++
	}}
	p := connect(t, client, server, &reactor.Config{MaxInFlight: limit})
	p.drive(t, func() bool { return received == total })
	require.Positive(t, writable)
	stats := p.dialed.Stats()
	require.EqualValues(t, total, stats.Accepted)
	require.Equal(t, writable, stats.QueueFull, "one OnWritable for each refusal of this client")
}

// TestCheckRoom checks that operations for which there was room are not refused, and that
// OnWritable is called when there is room for those that were refused together. With some of
// the numbers no operation would request a completion.
func TestCheckRoom(t *testing.T) {
	const limit, total = 8, 500
	for _, signalEvery := range []int{1, 3, limit} {
		for together := 1; together <= limit; together++ {
			begun, received, refused, writable := 0, 0, 0, 0
			fill := func(c *reactor.Conn) {
				for begun < total {
					if err := c.CheckRoom(together); err != nil {
						require.Equal(t, reactor.ErrWouldBlock, err)
						refused++
						return
					}
					for range together {
						require.NoError(t, c.Send(nil, nil))
					}
					begun += together
				}
			}
			client := &hooks{open: fill, writable: func(c *reactor.Conn) {
				writable++
				require.LessOrEqual(t, c.Stats().InFlight, min(limit/2, limit-together))
				fill(c)
			}}
			server := &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}
			p := connect(t, client, server, &reactor.Config{MaxInFlight: limit, Transport: reactor.Transport{SignalEvery: signalEvery}})
			p.drive(t, func() bool { return begun >= total && received == begun })
			require.Equal(t, refused, writable)
			require.EqualValues(t, refused, p.dialed.Stats().QueueFull)
		}
	}
}

// TestCheckRoomAndFurtherSends checks that OnWritable is called although the last sends, which
// were accepted after the refusal, request no completion.
func TestCheckRoomAndFurtherSends(t *testing.T) {
	const limit, signalEvery = 8, 4
	writable := 0
	p := connect(t, &hooks{writable: func(*reactor.Conn) { writable++ }}, &hooks{}, &reactor.Config{MaxInFlight: limit, Transport: reactor.Transport{SignalEvery: signalEvery}})
	for range signalEvery {
		require.NoError(t, p.dialed.Send(nil, nil))
	}
	require.Equal(t, reactor.ErrWouldBlock, p.dialed.CheckRoom(limit))
	require.NoError(t, p.dialed.Send(nil, nil))
	p.drive(t, func() bool { return writable > 0 })
	require.Zero(t, p.dialed.Stats().InFlight)
}

func TestCheckRoomErrors(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{MaxInFlight: 4})
	for _, n := range []int{-1, 0, 5} {
		var param *verbs.ParamError
		require.ErrorAs(t, p.dialed.CheckRoom(n), &param)
	}
	require.NoError(t, p.dialed.CheckRoom(4))
	p.dialed.Close()
	require.ErrorIs(t, p.dialed.CheckRoom(1), reactor.ErrClosed)
}

func TestSendBuffer(t *testing.T) {
	var got []string
	var kept *reactor.Buffer
	p := connect(t, &hooks{}, &hooks{message: func(c *reactor.Conn, msg reactor.Message) {
		if kept == nil {
			kept = msg.Keep()
			require.Same(t, kept, msg.Keep(), "a second Keep returns the same buffer")
		}
		got = append(got, string(msg.Data()))
	}}, nil)

	buf, err := p.dialed.Lease(0)
	require.NoError(t, err)
	require.Equal(t, 4096, buf.Cap())
	require.Empty(t, buf.Bytes())
	require.Error(t, buf.SetLen(4097))
	require.NoError(t, buf.SetLen(5))
	copy(buf.Bytes(), "first")
	require.NoError(t, p.dialed.SendBuffer(buf, nil))
	require.ErrorIs(t, p.dialed.SendBuffer(buf, nil), verbs.ErrForeign, "the buffer belongs to the connection")
	require.ErrorIs(t, buf.Release(), verbs.ErrState)
	require.NoError(t, p.dialed.Send([]byte("second"), &reactor.OpOptions{Imm: 7, HasImm: true}))
	p.drive(t, func() bool { return len(got) == 2 })
	require.Equal(t, []string{"first", "second"}, got)

	require.Equal(t, "first", string(kept.Bytes()), "a kept message does not change")
	require.ErrorIs(t, p.dialed.SendBuffer(kept, nil), verbs.ErrForeign, "the buffer belongs to another loop")
	require.NoError(t, kept.Release())
	require.ErrorIs(t, kept.Release(), verbs.ErrState)
}

func TestImmediateAndNotify(t *testing.T) {
	type immediate struct {
		imm uint32
		ok  bool
	}
	var got []immediate
	var done []reactor.Op
	p := connect(t,
		&hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
			require.NoError(t, err)
			done = append(done, op)
		}},
		&hooks{message: func(_ *reactor.Conn, msg reactor.Message) {
			imm, ok := msg.Imm()
			require.False(t, msg.IsWriteImm())
			got = append(got, immediate{imm, ok})
		}}, nil)
	require.NoError(t, p.dialed.Send([]byte("x"), &reactor.OpOptions{Imm: 42, HasImm: true, Notify: true, Tag: 9}))
	require.NoError(t, p.dialed.Send([]byte("y"), nil))
	p.drive(t, func() bool { return len(got) == 2 && len(done) == 1 })
	require.Equal(t, []immediate{{42, true}, {0, false}}, got)
	require.Equal(t, []reactor.Op{{Code: verbs.OpSendImm, Tag: 9, Bytes: 1}}, done)
}

func TestSendChecks(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	var param *verbs.ParamError
	require.ErrorAs(t, p.dialed.Send(make([]byte, 4097), nil), &param)
	require.Equal(t, "message", param.Field)
	require.ErrorIs(t, p.dialed.SendBuffer(nil, nil), verbs.ErrForeign)
	require.NoError(t, p.dialed.Close())
	require.ErrorIs(t, p.dialed.Send(nil, nil), reactor.ErrClosed)
	require.ErrorIs(t, p.dialed.Close(), reactor.ErrClosed)
	p.closed(t)
	require.ErrorIs(t, p.dialed.Send(nil, nil), reactor.ErrClosed)
	require.ErrorIs(t, p.dialed.Abort(nil), reactor.ErrClosed)
	_, err := p.dialed.Lease(0)
	require.ErrorIs(t, err, reactor.ErrClosed)
}

// TestOneDoorbellPerTurn checks that the messages of one turn share a doorbell, and that
// only every SignalEvery-th is signaled.
func TestOneDoorbellPerTurn(t *testing.T) {
	received := 0
	p := connect(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }},
		&reactor.Config{MaxInFlight: 32, Transport: reactor.Transport{SignalEvery: 8}})
	for range 16 {
		require.NoError(t, p.dialed.Send([]byte("m"), nil))
	}
	p.drive(t, func() bool { return received == 16 && p.dialed.Stats().Confirmed == 16 })
	require.NoError(t, p.dialed.Close())
	p.closed(t)
	require.NoError(t, p.client.Close())
	stats := p.client.Stats()
	require.EqualValues(t, 16, stats.Accepted)
	// The messages need one doorbell. Close posts at most two probes, with a doorbell
	// each.
	require.LessOrEqual(t, stats.SendDoorbells, uint64(3))
	require.LessOrEqual(t, stats.SendRequests, uint64(18))
}

// TestSharedReceiveQueue checks that connections with a shared receive queue exchange
// messages and close cleanly.
func TestSharedReceiveQueue(t *testing.T) {
	cfg := &reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 256}, MaxInFlight: 16}
	echoes := 0
	p := connect(t, &hooks{message: func(*reactor.Conn, reactor.Message) { echoes++ }},
		&hooks{message: echo(t)}, cfg)
	for sent := 0; sent < 1000; {
		for ; sent < 1000 && p.dialed.Send([]byte("shared"), nil) == nil; sent++ {
		}
		p.drive(t, func() bool { return echoes == sent })
	}
	require.NoError(t, p.dialed.Close())
	p.closed(t)
	require.NoError(t, p.dialCloseErr)
	require.ErrorIs(t, p.acceptCloseErr, reactor.ErrPeerClosed)
}
