package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestHostileAnnouncements checks that a connection ends with verbs.ErrProtocol
// when the peer violates the protocol for long messages. The next connection works.
func TestHostileAnnouncements(t *testing.T) {
	type env struct {
		p    *pair
		good reactor.Segment // 1 MiB of memory that can be read
	}
	announce := func(e env, s ...reactor.Segment) { reactor.SendControl(e.p.dialed, reactor.Announcement(s...)) }
	for name, c := range map[string]struct {
		attack func(e env)
		length uint64
	}{
		"wrong key": {func(e env) {
			e.good.Remote.RKey++
			announce(e, e.good)
		}, 1 << 20},
		"wrong address":    {func(e env) { e.good.Remote.Addr += 1 << 30; announce(e, e.good) }, 1 << 20},
		"false length":     {func(e env) { e.good.Length++; announce(e, e.good) }, 1<<20 + 1},
		"second segment":   {func(e env) { announce(e, e.good, reactor.Segment{Remote: reactor.Remote{Addr: 1, RKey: 1}, Length: 1}) }, 1<<20 + 1},
		"over the limit":   {func(e env) { e.good.Length = 4<<20 + 1; announce(e, e.good) }, 4<<20 + 1},
		"largest length":   {func(e env) { e.good.Length = 1<<32 - 1; announce(e, e.good, e.good, e.good) }, 3 * (1<<32 - 1)},
		"length 0":         {func(e env) { e.good.Length = 0; announce(e, e.good) }, 0},
		"no segment":       {func(e env) { announce(e) }, 0},
		"no header":        {func(e env) { reactor.SendControl(e.p.dialed, nil) }, 0},
		"false completion": {func(e env) { reactor.SendControl(e.p.dialed, []byte{2, 0, 0, 0, 0, 0, 0, 1}) }, 0},
		"too many behind": {func(e env) {
			e.good.Remote.RKey++ // With a wrong key, no READ succeeds.
			announce(e, e.good)
			for range reactor.LongWindow {
				require.NoError(t, e.p.dialed.Send([]byte("behind"), nil))
			}
		}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
				server := &hooks{message: func(*reactor.Conn, reactor.Message) { t.Error("a message was delivered") }}
				p := connect(&hooks{}, server, longConfig())
				memory := alloc(t, p.dialed, 1<<20, verbs.AccessRemoteRead)
				c.attack(env{p, reactor.Segment{Remote: remoteOf(t, p.dialed, memory), Length: 1 << 20}})
				p.closed(t)
				var violation *reactor.LongMessageError
				require.ErrorAs(t, p.acceptCloseErr, &violation)
				require.ErrorIs(t, p.acceptCloseErr, verbs.ErrProtocol)
				require.Equal(t, c.length, violation.Length)
				require.Error(t, p.dialCloseErr)
				require.Zero(t, reactor.LongBytes(p.server))

				received := 0
				server.message = func(*reactor.Conn, reactor.Message) { received++ }
				p.dialed = nil
				require.NoError(t, p.client.Engine().Dial(p.accepted.Info().LocalAddr, &reactor.DialOptions{LocalAddr: p.localAddr}))
				p.drive(t, func() bool { return p.dialed != nil })
				require.NoError(t, p.dialed.Send(make([]byte, 1<<20), nil))
				p.drive(t, func() bool { return received == 1 })
			})
		})
	}
}

// TestViolationBeforeDisconnect checks the error of a connection whose peer has announced
// more memory than it has registered, and has disconnected before this side has polled
// the completion of the READ.
func TestViolationBeforeDisconnect(t *testing.T) {
	onEachPath(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		p := connect(&hooks{}, &hooks{}, longConfig())
		s := reactor.Segment{Remote: remoteOf(t, p.dialed, alloc(t, p.dialed, 5000, verbs.AccessRemoteRead)), Length: 5001}
		reactor.SendControl(p.dialed, reactor.Announcement(s))
		p.drive(t, func() bool { return reactor.LongReads(p.accepted) > 0 })
		drive(t, func() bool { return reactor.InternalState(p.dialed) >= reactor.StateCloseBegun }, p.client)
		reactor.InjectDisconnected(p.accepted, nil)
		p.closed(t)
		var violation *reactor.LongMessageError
		require.ErrorAs(t, p.acceptCloseErr, &violation)
	})
}

// TestOverlappingSegments checks that a message whose segments overlap is received.
func TestOverlappingSegments(t *testing.T) {
	var got []byte
	p := connect(t, &hooks{}, &hooks{message: func(_ *reactor.Conn, m reactor.Message) { got = append(got, m.Data()...) }}, longConfig())
	memory := alloc(t, p.dialed, 100, verbs.AccessRemoteRead)
	copy(memory.Bytes(), randomBytes(100, 1))
	s := reactor.Segment{Remote: remoteOf(t, p.dialed, memory), Length: 100}
	later := reactor.Segment{Remote: reactor.Remote{Addr: s.Remote.Addr + 50, RKey: s.Remote.RKey}, Length: 50}
	reactor.SendControl(p.dialed, reactor.Announcement(s, later, s))
	p.drive(t, func() bool { return len(got) > 0 })
	want := append(append([]byte(nil), memory.Bytes()...), memory.Bytes()[50:]...)
	require.Equal(t, append(want, memory.Bytes()...), got)
}

// TestNoAgreement checks that a connection has no long messages if only one side is
// configured for them. A message in the format of an announcement is then passed to the
// application.
func TestNoAgreement(t *testing.T) {
	for name, c := range map[string]struct{ client, server *reactor.Config }{
		"client only": {longConfig(), nil},
		"server only": {nil, longConfig()},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			var imm uint32
			var opened, accepted *reactor.Conn
			private := make(chan []byte, 1)
			server := newLoop(t, &hooks{
				request: func(r *reactor.ConnRequest) {
					private <- r.PrivateData()
					require.NoError(t, r.Accept(&reactor.AcceptOptions{PrivateData: []byte("reply")}))
				},
				open: func(c *reactor.Conn) { accepted = c },
				message: func(_ *reactor.Conn, m reactor.Message) {
					got = append(got, m.Data()...)
					imm, _ = m.Imm()
				},
			}, c.server)
			client := newLoop(t, &hooks{open: func(c *reactor.Conn) { opened = c }}, c.client)
			require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), &reactor.DialOptions{PrivateData: []byte("request")}))
			drive(t, func() bool { return opened != nil && accepted != nil }, client, server)
			require.Equal(t, "request", string((<-private)[:7]))
			require.Equal(t, "reply", string(opened.Info().PeerPrivateData[:5]))
			require.False(t, reactor.AgreesOnLong(opened))
			require.False(t, reactor.AgreesOnLong(accepted))
			announcement := reactor.Announcement(reactor.Segment{Length: 1})
			require.NoError(t, opened.Send(announcement, &reactor.OpOptions{Imm: reactor.FirstControlImm, HasImm: true}))
			drive(t, func() bool { return got != nil }, client, server)
			require.Equal(t, announcement, got)
			require.EqualValues(t, reactor.FirstControlImm, imm)
			var param *verbs.ParamError
			require.ErrorAs(t, opened.Send(make([]byte, 4097), nil), &param)
			require.EqualValues(t, 4096, param.Limit)
		})
	}
}

// TestAgreement checks the private data and the limits of connections whose sides have
// agreed on long messages, and the immediate data of control messages.
func TestAgreement(t *testing.T) {
	var got []string
	var imms []uint32
	var opened *reactor.Conn
	server := newLoop(t, &hooks{
		request: func(r *reactor.ConnRequest) {
			require.Equal(t, append([]byte("request"), make([]byte, 41)...), r.PrivateData())
			var param *verbs.ParamError
			require.ErrorAs(t, r.Accept(&reactor.AcceptOptions{PrivateData: make([]byte, 189)}), &param)
			require.NoError(t, r.Accept(&reactor.AcceptOptions{PrivateData: []byte("reply")}))
		},
		message: func(_ *reactor.Conn, m reactor.Message) {
			imm, _ := m.Imm()
			got, imms = append(got, string(m.Data())), append(imms, imm)
		},
	}, &reactor.Config{MaxLongMessage: 10_000})
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { opened = c }}, longConfig())
	addr := listen(t, server.Engine())
	var param *verbs.ParamError
	require.ErrorAs(t, client.Engine().Dial(addr, &reactor.DialOptions{PrivateData: make([]byte, 49)}), &param)
	require.NoError(t, client.Engine().Dial(addr, &reactor.DialOptions{PrivateData: []byte("request")}))
	drive(t, func() bool { return opened != nil && len(reactor.ConnsOf(server)) == 1 }, client, server)
	require.Equal(t, append([]byte("reply"), make([]byte, 183)...), opened.Info().PeerPrivateData)
	require.ErrorAs(t, opened.Send(make([]byte, 10_001), nil), &param)
	require.EqualValues(t, 10_000, param.Limit)
	for i := range uint32(5) {
		imm := reactor.FirstControlImm + i
		require.NoError(t, opened.Send([]byte("user"), &reactor.OpOptions{Imm: imm, HasImm: true}))
		require.NoError(t, opened.Send(make([]byte, 10_000), &reactor.OpOptions{Imm: imm, HasImm: true}))
	}
	drive(t, func() bool { return len(got) == 10 }, client, server)
	for i := range 10 {
		require.EqualValues(t, reactor.FirstControlImm+i/2, imms[i])
		require.Len(t, got[i], []int{4, 10_000}[i%2])
	}
}

// TestLongConfig checks the limits of the Config for long messages.
func TestLongConfig(t *testing.T) {
	for field, cfg := range map[string]*reactor.Config{
		"MaxLongMessage": {MaxLongMessage: 1<<30 + 1},
		"MaxMessage":     {MaxLongMessage: 5000, MaxMessage: 100},
		"LongConnBytes":  {MaxLongMessage: 5000, Memory: reactor.Memory{LongConnBytes: 1000}},
		"LongLoopBytes":  {MaxLongMessage: 1 << 20, Memory: reactor.Memory{LongLoopBytes: 1 << 19}},
	} {
		_, err := reactor.NewLoop(openSoft(t), &hooks{}, cfg)
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.Equal(t, field, param.Field)
	}
	_ = newLoop(t, &hooks{}, &reactor.Config{MaxLongMessage: 1 << 30})
}
