package reactor_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// longHooks are hooks that choose how long messages are received.
type longHooks struct {
	hooks
	long func(*reactor.Conn, *reactor.LongMessage)
	part func(*reactor.Conn, *reactor.LongMessage, reactor.Message)
}

func (h *longHooks) OnLongMessage(c *reactor.Conn, m *reactor.LongMessage) { h.long(c, m) }
func (h *longHooks) OnPart(c *reactor.Conn, m *reactor.LongMessage, part reactor.Message) {
	h.part(c, m, part)
}

// connectLong connects two loops. The server chooses how long messages are received.
func connectLong(t *testing.T, client *hooks, server *longHooks, cfg *reactor.Config) *pair {
	t.Helper()
	p := &pair{}
	watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
	watch(&server.hooks, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	p.server, p.client = newLoop(t, server, cfg), newLoop(t, client, cfg)
	require.NoError(t, p.client.Engine().Dial(listen(t, p.server.Engine()), nil))
	p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
	return p
}

// TestLongParts checks that a message that is received in parts uses no more memory than
// Config.Memory.LongConnBytes, that no READ is posted while kept parts use this memory, and that
// later messages wait.
func TestLongParts(t *testing.T) {
	const limit = 1 << 20
	var got []byte
	var kept []*reactor.Buffer
	var short []string
	keep := false
	server := &longHooks{}
	server.long = func(_ *reactor.Conn, m *reactor.LongMessage) {
		imm, ok := m.Imm()
		require.True(t, ok)
		require.EqualValues(t, 9, imm)
		m.Parts()
	}
	server.part = func(c *reactor.Conn, m *reactor.LongMessage, p reactor.Message) {
		require.Equal(t, len(got), m.Offset())
		require.Equal(t, 8<<20+5, m.Len())
		require.LessOrEqual(t, reactor.LongBytes(c.Loop()), limit)
		require.LessOrEqual(t, len(p.Data()), 256<<10)
		got = append(got, p.Data()...)
		if keep {
			kept = append(kept, p.Keep())
		}
	}
	server.message = func(_ *reactor.Conn, m reactor.Message) { short = append(short, string(m.Data())) }
	completed := 0
	p := connectLong(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) {
		require.NoError(t, err)
		completed++
	}}, server, &reactor.Config{MaxLongMessage: 16 << 20, Memory: reactor.Memory{LongConnBytes: limit}})
	source := alloc(t, p.dialed, 8<<20+5, verbs.AccessRemoteRead)
	copy(source.Bytes(), randomBytes(len(source.Bytes()), 5))
	for _, keep = range []bool{false, true} {
		got = got[:0]
		sent := completed
		require.NoError(t, p.dialed.SendV(&reactor.OpOptions{Imm: 9, HasImm: true}, reactor.Piece{Region: source, Length: len(source.Bytes())}))
		require.NoError(t, p.dialed.Send([]byte("behind"), nil))
		for keep && completed == sent {
			p.drive(t, func() bool { return len(kept) == 4 || completed > sent })
			require.LessOrEqual(t, len(kept), 4)
			before := len(got)
			for range 20 {
				_, _ = p.server.RunOnce(0)
				_, _ = p.client.RunOnce(0)
			}
			require.Equal(t, before, len(got), "nothing is read while the parts are kept")
			for _, b := range kept {
				require.NoError(t, b.Release())
			}
			kept = kept[:0]
		}
		p.drive(t, func() bool { return completed > sent && len(short) > 0 })
		require.True(t, bytes.Equal(source.Bytes(), got))
		require.Equal(t, []string{"behind"}, short)
		short = nil
	}
	require.EqualValues(t, 4, p.accepted.Stats().Messages)
	require.Zero(t, reactor.LongBytes(p.server))
}

// TestLongAccept checks messages that are read into memory of the application, and the
// errors of Accept.
func TestLongAccept(t *testing.T) {
	var into *reactor.Region
	var got [][]byte
	server := &longHooks{}
	server.long = func(c *reactor.Conn, m *reactor.LongMessage) {
		require.Equal(t, 1<<20, m.Len())
		var param *verbs.ParamError
		require.ErrorAs(t, m.Accept(reactor.Piece{Region: into, Length: 1<<20 - 1}), &param)
		require.ErrorIs(t, m.Accept(reactor.Piece{Length: 1 << 20}), verbs.ErrForeign)
		require.ErrorAs(t, m.Accept(reactor.Piece{Region: into, Offset: 1 << 20, Length: 1 << 21}), &param)
		require.NoError(t, m.Accept(reactor.Piece{Region: into, Offset: 100, Length: 1<<20 + 50}))
		require.ErrorIs(t, m.Accept(reactor.Piece{Region: into, Length: 1 << 20}), verbs.ErrState)
	}
	server.message = func(_ *reactor.Conn, m reactor.Message) {
		require.Same(t, &into.Bytes()[100], &m.Data()[0])
		require.Nil(t, m.Keep())
		got = append(got, bytes.Clone(m.Data()))
	}
	p := connectLong(t, &hooks{}, server, &reactor.Config{MaxLongMessage: 2 << 20, Memory: reactor.Memory{LongConnBytes: 256 << 10}})
	into = alloc(t, p.accepted, 2<<20, verbs.AccessLocalWrite)
	for i := range uint64(3) {
		require.NoError(t, p.dialed.Send(randomBytes(1<<20, i), nil))
	}
	p.drive(t, func() bool { return len(got) == 3 })
	for i := range uint64(3) {
		require.True(t, bytes.Equal(randomBytes(1<<20, i), got[i]))
	}
	require.Zero(t, reactor.LongBytes(p.server))
	closed := make(chan error, 1)
	into.CloseFunc(func(err error) { closed <- err })
	_, _ = p.server.RunOnce(0)
	require.NoError(t, receive(t, closed))
}

// TestLongDiscard checks that a message that the handler discards is not read, and that
// the operation of the sender completes.
func TestLongDiscard(t *testing.T) {
	server := &longHooks{long: func(_ *reactor.Conn, m *reactor.LongMessage) { m.Discard() }}
	received, completed := 0, 0
	server.message = func(*reactor.Conn, reactor.Message) { received++ }
	p := connectLong(t, &hooks{completion: func(*reactor.Conn, reactor.Op, error) { completed++ }}, server, longConfig())
	for range 5 {
		require.NoError(t, p.dialed.Send(make([]byte, 1<<20), &reactor.OpOptions{Notify: true}))
		require.NoError(t, p.dialed.Send([]byte("next"), nil))
	}
	p.drive(t, func() bool { return received == 5 && completed == 5 })
	p.drive(t, func() bool { return p.server.Stats().Discarded == 5 })
	require.Zero(t, reactor.LongBytes(p.server))
}

// TestLongNotChosen checks that a message longer than Config.Memory.LongConnBytes ends the
// connection if OnLongMessage has called neither Accept nor Parts nor Discard.
func TestLongNotChosen(t *testing.T) {
	server := &longHooks{long: func(*reactor.Conn, *reactor.LongMessage) {}}
	p := connectLong(t, &hooks{}, server, &reactor.Config{MaxLongMessage: 2 << 20, Memory: reactor.Memory{LongConnBytes: 1 << 20}})
	require.Equal(t, 2<<20, p.dialed.Info().MaxMessage)
	require.NoError(t, p.dialed.Send(make([]byte, 1<<20+1), nil))
	p.closed(t)
	var violation *reactor.LongMessageError
	require.ErrorAs(t, p.acceptCloseErr, &violation)
	require.EqualValues(t, 1<<20+1, violation.Length)
}

// TestLongLoopLimit checks that all connections of a loop together use at most
// Config.Memory.LongLoopBytes, and that each connection receives its messages.
func TestLongLoopLimit(t *testing.T) {
	const conns, messages = 8, 3
	server := &hooks{}
	counts := make(map[*reactor.Conn]int)
	total := 0
	server.message = func(c *reactor.Conn, _ reactor.Message) {
		require.LessOrEqual(t, reactor.LongBytes(c.Loop()), 2<<20)
		counts[c]++
		total++
	}
	cfg := &reactor.Config{MaxLongMessage: 1 << 20, Memory: reactor.Memory{LongLoopBytes: 2 << 20}}
	var dialed []*reactor.Conn
	client := &hooks{open: func(c *reactor.Conn) { dialed = append(dialed, c) }}
	s, c := newLoop(t, server, cfg), newLoop(t, client, cfg)
	addr := listen(t, s.Engine())
	for range conns {
		require.NoError(t, c.Engine().Dial(addr, nil))
	}
	drive(t, func() bool { return len(dialed) == conns }, s, c)
	for range messages {
		for _, conn := range dialed {
			require.NoError(t, conn.Send(make([]byte, 1<<20), nil))
		}
	}
	drive(t, func() bool { return total == conns*messages }, s, c)
	require.Len(t, counts, conns)
	require.Zero(t, reactor.LongBytes(s))
}

// TestLongKeptMessages checks that the memory of a kept message counts as used until
// Buffer.Release, also after the connection has closed.
func TestLongKeptMessages(t *testing.T) {
	var kept []*reactor.Buffer
	p := connect(t, &hooks{}, &hooks{message: func(_ *reactor.Conn, m reactor.Message) { kept = append(kept, m.Keep()) }},
		&reactor.Config{MaxLongMessage: 1 << 20, Memory: reactor.Memory{LongConnBytes: 2 << 20}})
	for i := range uint64(4) {
		require.NoError(t, p.dialed.Send(randomBytes(1<<20, i), nil))
	}
	p.drive(t, func() bool { return len(kept) == 2 })
	for range 20 {
		_, _ = p.server.RunOnce(0)
		_, _ = p.client.RunOnce(0)
	}
	require.Len(t, kept, 2)
	require.Equal(t, 2<<20, reactor.LongBytes(p.server))
	require.NoError(t, kept[0].Release())
	p.drive(t, func() bool { return len(kept) == 3 })
	require.NoError(t, p.dialed.Abort(nil))
	p.closed(t)
	for i := range uint64(2) {
		require.True(t, bytes.Equal(randomBytes(1<<20, i+1), kept[i+1].Bytes()))
		require.NoError(t, kept[i+1].Release())
	}
	require.Zero(t, reactor.LongBytes(p.server))
}

// TestCloseDuringLongMessage ends a connection on either side, by Close and by Abort,
// while long messages are under way in both directions. Each send is reported once.
func TestCloseDuringLongMessage(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	for turns := 0; turns < 12; turns += step {
		for _, abort := range []bool{false, true} {
			for _, atServer := range []bool{false, true} {
				onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
					reported := 0
					count := func(*reactor.Conn, reactor.Op, error) { reported++ }
					p := connect(&hooks{completion: count}, &hooks{completion: count}, longConfig())
					regions := make(chan error, 2)
					for _, c := range []*reactor.Conn{p.dialed, p.accepted} {
						r := alloc(t, c, 1<<20, verbs.AccessRemoteRead)
						for range 3 {
							require.NoError(t, c.SendV(nil, reactor.Piece{Region: r, Length: 1 << 20}))
							require.NoError(t, c.Send([]byte("between"), nil))
						}
						r.CloseFunc(func(err error) { regions <- err })
					}
					for range turns {
						_, _ = p.client.RunOnce(0)
						_, _ = p.server.RunOnce(0)
					}
					c := p.dialed
					if atServer {
						c = p.accepted
					}
					if abort {
						require.NoError(t, c.Abort(nil))
					} else {
						require.NoError(t, c.Close())
					}
					p.closed(t)
					require.Equal(t, 6, reported)
					p.drive(t, func() bool { return len(regions) == 2 })
					require.Zero(t, reactor.LongBytes(p.client)+reactor.LongBytes(p.server))
					if !abort {
						require.NoError(t, map[bool]error{true: p.acceptCloseErr, false: p.dialCloseErr}[atServer])
					}
				})
			}
		}
	}
}

// TestShownBufferIsNotReused checks that a buffer whose key the peer of one connection
// knows never holds a message of another connection. The other connection sends a copy.
func TestShownBufferIsNotReused(t *testing.T) {
	var opened []*reactor.Conn
	received, completed := 0, 0
	server := newLoop(t, &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
		require.True(t, bytes.Equal(randomBytes(8192, uint64(received))[:len(m.Data())], m.Data()))
		received++
	}}, longConfig())
	client := newLoop(t, &hooks{
		open:       func(c *reactor.Conn) { opened = append(opened, c) },
		completion: func(*reactor.Conn, reactor.Op, error) { completed++ },
	}, longConfig())
	addr := listen(t, server.Engine())
	require.NoError(t, client.Engine().Dial(addr, nil))
	require.NoError(t, client.Engine().Dial(addr, nil))
	drive(t, func() bool { return len(opened) == 2 }, client, server)
	lease := func(c *reactor.Conn) *reactor.Buffer {
		b, err := c.Lease(8192)
		require.NoError(t, err)
		require.NoError(t, b.SetLen(copy(b.Bytes()[:8192], randomBytes(8192, uint64(received)))))
		return b
	}
	send := func(c *reactor.Conn, b *reactor.Buffer) {
		require.NoError(t, c.SendBuffer(b, &reactor.OpOptions{Notify: true}))
		want := completed + 1
		drive(t, func() bool { return completed == want }, client, server)
	}
	first := lease(opened[0])
	address := &first.Bytes()[0]
	send(opened[0], first)
	other := lease(opened[1])
	require.NotSame(t, address, &other.Bytes()[0])
	send(opened[1], other)
	again := lease(opened[0])
	require.Same(t, address, &again.Bytes()[0])
	require.NoError(t, again.SetLen(100))
	require.NoError(t, opened[1].SendBuffer(again, nil)) // a copy is sent
	drive(t, func() bool { return received == 3 }, client, server)
	again = lease(opened[0])
	require.Same(t, address, &again.Bytes()[0])
	send(opened[1], again) // a copy is sent
	again = lease(opened[0])
	require.Same(t, address, &again.Bytes()[0])
	require.NoError(t, again.Release())
	require.Equal(t, 4, received)
}
