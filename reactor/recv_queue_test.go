package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// connectImmediates makes two loops and a connection, like connect(). The accepting side
// has the option ImmediatesOnly.
func connectImmediates(t *testing.T, client, server *hooks, cfg *reactor.Config) *pair {
	t.Helper()
	p := &pair{}
	watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
	watch(server, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
	p.server, p.client = newLoop(t, server, cfg), newLoop(t, client, cfg)
	ln, err := p.server.Engine().Listen(loopback, &reactor.ListenOptions{ImmediatesOnly: true})
	require.NoError(t, err)
	require.NoError(t, p.client.Engine().Dial(ln.Addr(), nil))
	p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
	return p
}

// recvConfigs are configurations with and without shared receive buffers.
var recvConfigs = map[string]*reactor.Config{"shared": nil, "own": {Memory: reactor.Memory{SharedRecvBuffers: -1}}}

// TestImmediatesOnly sends immediates, with and without bytes, and messages without bytes
// to a connection whose receives have no buffers. Nothing is allocated.
func TestImmediatesOnly(t *testing.T) {
	for name, cfg := range recvConfigs {
		t.Run(name, func(t *testing.T) {
			type got struct {
				imm   uint32
				write bool
			}
			var last got
			count := 0
			server := &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
				imm, _ := m.Imm()
				last = got{imm, m.IsWriteImm()}
				count++
				if len(m.Data()) > 0 {
					t.Error("a message has bytes")
				}
			}}
			p := connectImmediates(t, &hooks{}, server, cfg)
			target := alloc(t, p.accepted, 64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
			source := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
			copy(source.Bytes(), "bytes")
			to, failed := remoteOf(t, p.accepted, target), error(nil)
			send := func(want got, err error) {
				for next := count + 1; count < next && err == nil; {
					if _, err = p.client.RunOnce(0); err == nil {
						_, err = p.server.RunOnce(0)
					}
				}
				if err != nil {
					failed = err
				}
				if last != want {
					t.Errorf("%v instead of %v", last, want)
				}
			}
			i := uint32(0)
			round := func() {
				i++
				send(got{i, true}, p.dialed.Write(reactor.Remote{}, &reactor.OpOptions{Quiet: true, HasImm: true, Imm: i}))
				send(got{i + 1, true}, p.dialed.Write(to, &reactor.OpOptions{Quiet: true, HasImm: true, Imm: i + 1}, reactor.Piece{Region: source, Length: 5}))
				inline := reactor.OpOptions{Quiet: true, HasImm: true, Imm: i + 2}
				send(got{i + 2, true}, p.dialed.WriteBytes(reactor.Remote{Addr: to.Addr + 8, RKey: to.RKey}, []byte("inline"), &inline))
				send(got{i + 3, false}, p.dialed.Send(nil, &reactor.OpOptions{HasImm: true, Imm: i + 3}))
				send(got{}, p.dialed.Send(nil, nil))
			}
			for range 100 {
				round()
			}
			require.Zero(t, testing.AllocsPerRun(100, round))
			require.NoError(t, failed)
			require.Equal(t, "bytes\x00\x00\x00inline", string(target.Bytes()[:14]))
			require.NoError(t, p.dialed.Close())
			p.closed(t)
			require.NoError(t, p.dialCloseErr)
		})
	}
}

// TestImmediatesOnlyRefusesBytes sends a message with bytes to a connection whose
// receives have no buffers. That ends the connection, and no other.
func TestImmediatesOnlyRefusesBytes(t *testing.T) {
	for name, cfg := range recvConfigs {
		t.Run(name, func(t *testing.T) {
			messages := 0
			p := connectImmediates(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { messages++ }}, cfg)
			first, firstAccepted := p.dialed, p.accepted
			require.NoError(t, p.client.Engine().Dial(p.dialed.Info().RemoteAddr, nil))
			p.drive(t, func() bool { return p.dialed != first && p.accepted != firstAccepted })
			require.NoError(t, p.dialed.Send([]byte("x"), &reactor.OpOptions{Notify: true}))
			p.closed(t)
			require.Equal(t, verbs.StatusRemInvReqErr, status(t, p.dialCloseErr))
			require.Equal(t, verbs.StatusLocLenErr, status(t, p.acceptCloseErr))
			require.Zero(t, messages)
			require.NoError(t, first.Write(reactor.Remote{}, &reactor.OpOptions{HasImm: true, Imm: 1}))
			p.drive(t, func() bool { return messages == 1 })
		})
	}
}

// TestImmediatesOnlyKeep checks that Keep returns an empty buffer for a message without
// bytes, and that the buffer can be released.
func TestImmediatesOnlyKeep(t *testing.T) {
	var kept []*reactor.Buffer
	p := connectImmediates(t, &hooks{}, &hooks{message: func(_ *reactor.Conn, m reactor.Message) { kept = append(kept, m.Keep()) }}, nil)
	for range 3 {
		require.NoError(t, p.dialed.Write(reactor.Remote{}, &reactor.OpOptions{HasImm: true, Imm: 1}))
	}
	p.drive(t, func() bool { return len(kept) == 3 })
	for _, b := range kept {
		require.Empty(t, b.Bytes())
		require.NoError(t, b.Release())
	}
}

// TestImmediatesBeforeOpen accepts a connection whose peer sends at once. OnMessage
// follows OnOpen.
func TestImmediatesBeforeOpen(t *testing.T) {
	var order []string
	server := &hooks{
		open:    func(*reactor.Conn) { order = append(order, "open") },
		message: func(*reactor.Conn, reactor.Message) { order = append(order, "message") },
	}
	client := &hooks{open: func(c *reactor.Conn) {
		require.NoError(t, c.Write(reactor.Remote{}, &reactor.OpOptions{HasImm: true, Imm: 1}))
	}}
	p := connectImmediates(t, client, server, nil)
	p.drive(t, func() bool { return len(order) == 2 })
	require.Equal(t, []string{"open", "message"}, order)
}

// TestImmediatesOnlyDial sets the option on the dialing side.
func TestImmediatesOnlyDial(t *testing.T) {
	var imm uint32
	client := &hooks{message: func(_ *reactor.Conn, m reactor.Message) { imm, _ = m.Imm() }}
	server := &hooks{open: func(c *reactor.Conn) {
		require.NoError(t, c.Write(reactor.Remote{}, &reactor.OpOptions{HasImm: true, Imm: 9}))
	}}
	s, c := newLoop(t, server, nil), newLoop(t, client, nil)
	ln, err := s.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, c.Engine().Dial(ln.Addr(), &reactor.DialOptions{ImmediatesOnly: true}))
	drive(t, func() bool { return imm == 9 }, s, c)
	require.Zero(t, c.Stats().Unreplaced)
}
