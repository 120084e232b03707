package reactor_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// readWrite has the rights of the windows in these tests. windowOnly has the rights of a
// region that peers can use only through windows.
const (
	readWrite  = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	windowOnly = verbs.AccessLocalWrite | verbs.AccessMWBind
)

// onBothPaths runs a test on the local path and on the wire path. The parameter connect
// of the test is like the function connect, for this path.
func onBothPaths(t *testing.T, test func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair)) {
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t.Run(path.String(), func(t *testing.T) {
			port := freeport.UDP(t)
			test(t, func(client, server *hooks, cfg *reactor.Config) *pair {
				p := &pair{}
				watch(client, &p.dialed, &p.dialCloseErr, &p.dialCloses)
				watch(server, &p.accepted, &p.acceptCloseErr, &p.acceptCloses)
				p.server, p.client = pathLoop(t, path, port, server, cfg), pathLoop(t, path, port, client, cfg)
				ln, err := p.server.Engine().Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
				require.NoError(t, err)
				require.NoError(t, p.client.Engine().Dial(ln.Addr(), &reactor.DialOptions{LocalAddr: netip.MustParseAddrPort("127.0.0.2:0")}))
				p.drive(t, func() bool { return p.dialed != nil && p.accepted != nil })
				return p
			})
		})
	}
}

// TestShow checks that the peer can READ and WRITE the bytes of a window, and that a
// WRITE beyond the window ends the connection.
func TestShow(t *testing.T) {
	onBothPaths(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		var done []reactor.Op
		client := &hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
			if err == nil {
				done = append(done, op)
			}
		}}
		p := connect(client, &hooks{}, nil)
		shown, own := alloc(t, p.accepted, 4096, windowOnly), alloc(t, p.dialed, 4096, verbs.AccessLocalWrite)
		copy(shown.Bytes()[1000:], "hello")
		to, err := p.accepted.Show(reactor.Piece{Region: shown, Offset: 1000, Length: 10}, readWrite)
		require.NoError(t, err)
		p.accepted.Flush()
		require.NoError(t, p.dialed.Read(to, nil, reactor.Piece{Region: own, Length: 5}))
		p.drive(t, func() bool { return len(done) == 1 })
		require.Equal(t, "hello", string(own.Bytes()[:5]))
		to.Addr += 5
		require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: own, Length: 5}))
		p.drive(t, func() bool { return len(done) == 2 })
		require.Equal(t, "hellohello", string(shown.Bytes()[1000:1010]))

		// The WRITE begins in the window, and ends one byte after it.
		to.Addr++
		require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: own, Length: 5}))
		p.closed(t)
		require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
	})
}

// TestShowOneConnOnly checks that a key that was shown to one connection is refused on
// another connection of the same engine.
func TestShowOneConnOnly(t *testing.T) {
	var conns []*reactor.Conn
	p := connect(t, &hooks{}, &hooks{open: func(c *reactor.Conn) { conns = append(conns, c) }}, nil)
	first := p.dialed
	require.NoError(t, p.client.Engine().Dial(p.dialed.Info().RemoteAddr, nil))
	p.drive(t, func() bool { return p.dialed != first && len(conns) == 2 })
	shown, own := alloc(t, conns[0], 64, windowOnly), alloc(t, first, 64, verbs.AccessLocalWrite)
	to, err := conns[0].Show(reactor.Piece{Region: shown, Length: 64}, readWrite)
	require.NoError(t, err)
	conns[0].Flush()
	require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: own, Length: 64}))
	p.closed(t)
	require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
	require.Equal(t, reactor.StateOpen, first.State())
	require.Equal(t, reactor.StateOpen, conns[0].State())
}

// TestHide makes keys invalid on this side. The peer's access then ends the connection.
func TestHide(t *testing.T) {
	onBothPaths(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		var hidden []reactor.Op
		server := &hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
			require.NoError(t, err)
			hidden = append(hidden, op)
		}}
		p := connect(&hooks{}, server, nil)
		shown, own := alloc(t, p.accepted, 64, windowOnly), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
		var to reactor.Remote
		for i := range 300 {
			var err error
			to, err = p.accepted.Show(reactor.Piece{Region: shown, Length: 64}, readWrite)
			require.NoError(t, err)
			require.NoError(t, p.accepted.Hide(to.RKey, &reactor.OpOptions{Tag: uint64(i)}))
			require.ErrorIs(t, p.accepted.Hide(to.RKey, nil), verbs.ErrState)
			p.drive(t, func() bool { return len(hidden) == i+1 })
			require.Equal(t, reactor.Op{Code: verbs.OpLocalInv, Tag: uint64(i)}, hidden[i])
		}
		require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: own, Length: 64}))
		p.closed(t)
		require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
	})
}

// TestWindowGivenBack lets the peer invalidate each key with a message. Then the window
// is used again. The reactor allocates nothing.
func TestWindowGivenBack(t *testing.T) {
	onBothPaths(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		var returned uint32
		rounds := 0
		server := &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
			if key, ok := m.Invalidated(); ok {
				returned = key
				rounds++
			}
		}}
		p := connect(&hooks{}, server, &reactor.Config{Transport: reactor.Transport{MaxWindows: 1}})
		shown := alloc(t, p.accepted, 64, windowOnly)
		own := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
		var failed error
		note := func(err error) {
			if err != nil {
				failed = err
			}
		}
		round := func() {
			to, err := p.accepted.Show(reactor.Piece{Region: shown, Length: 64}, readWrite)
			note(err)
			p.accepted.Flush()
			note(p.dialed.Write(to, &reactor.OpOptions{Quiet: true}, reactor.Piece{Region: own, Length: 64}))
			note(p.dialed.Send(nil, &reactor.OpOptions{Invalidate: to.RKey}))
			for want := rounds + 1; rounds < want && failed == nil; {
				_, err := p.client.RunOnce(0)
				note(err)
				_, err = p.server.RunOnce(0)
				note(err)
			}
			if returned != to.RKey {
				t.Errorf("key %#x instead of %#x", returned, to.RKey)
			}
		}
		own.Bytes()[5] = 7
		for range 300 {
			round()
		}
		// The soft device allocates two objects for each bind.
		require.LessOrEqual(t, testing.AllocsPerRun(300, round), 2.0)
		require.NoError(t, failed)
		require.EqualValues(t, 7, shown.Bytes()[5])
	})
}

// TestInvalidateInEveryMessage sends the key to invalidate with each kind of message.
func TestInvalidateInEveryMessage(t *testing.T) {
	returned := map[uint32]string{}
	server := &hooks{message: func(_ *reactor.Conn, m reactor.Message) {
		key, ok := m.Invalidated()
		require.True(t, ok)
		_, hasImm := m.Imm()
		require.False(t, hasImm)
		returned[key] = string(m.Data())
	}}
	var ops []reactor.Op
	client := &hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
		require.NoError(t, err)
		ops = append(ops, op)
	}}
	p := connect(t, client, server, nil)
	shown, own := alloc(t, p.accepted, 64, windowOnly), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	copy(own.Bytes(), "three")
	show := func() reactor.OpOptions {
		to, err := p.accepted.Show(reactor.Piece{Region: shown, Length: 64}, readWrite)
		require.NoError(t, err)
		p.accepted.Flush()
		return reactor.OpOptions{Invalidate: to.RKey, Notify: true}
	}
	one, two, three := show(), show(), show()
	require.NoError(t, p.dialed.Send([]byte("one"), &one))
	buf, err := p.dialed.Lease(0)
	require.NoError(t, err)
	require.NoError(t, buf.SetLen(copy(buf.Bytes()[:buf.Cap()], "two")))
	require.NoError(t, p.dialed.SendBuffer(buf, &two))
	require.NoError(t, p.dialed.SendV(&three, reactor.Piece{Region: own, Length: 5}))
	p.drive(t, func() bool { return len(ops) == 3 })
	require.Equal(t, map[uint32]string{one.Invalidate: "one", two.Invalidate: "two", three.Invalidate: "three"}, returned)
	for _, op := range ops {
		require.Equal(t, verbs.OpSendInv, op.Code)
	}

	o := reactor.OpOptions{Invalidate: 1, HasImm: true}
	requireParamError(t, p.dialed.Send(nil, &o), "Invalidate")
	requireParamError(t, p.dialed.SendV(&o), "Invalidate")
	o.HasImm = false
	requireParamError(t, p.dialed.Write(reactor.Remote{}, &o, reactor.Piece{}), "Invalidate")
	requireParamError(t, p.dialed.WriteBytes(reactor.Remote{}, nil, &o), "Invalidate")
	requireParamError(t, p.dialed.FetchAdd(reactor.Remote{}, 1, &o), "Invalidate")
}

func requireParamError(t *testing.T, err error, field string) {
	t.Helper()
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.Equal(t, field, param.Field)
}

// TestInvalidateUnknownKey checks that the connection ends when a message invalidates a
// key that the peer does not show.
func TestInvalidateUnknownKey(t *testing.T) {
	onBothPaths(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		p := connect(&hooks{}, &hooks{}, nil)
		require.NoError(t, p.dialed.Send(nil, &reactor.OpOptions{Invalidate: 12345}))
		p.closed(t)
		require.Error(t, p.dialCloseErr)
		require.Equal(t, verbs.StatusRemInvReqErr, status(t, p.acceptCloseErr))
	})
}

// TestShowRefuses checks the arguments of Show, and Config.Transport.MaxWindows.
func TestShowRefuses(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Transport: reactor.Transport{MaxWindows: 2}})
	shown := alloc(t, p.accepted, 64, windowOnly)
	refuse := func(field string, piece reactor.Piece, access verbs.Access) {
		t.Helper()
		_, err := p.accepted.Show(piece, access)
		requireParamError(t, err, field)
	}
	whole := reactor.Piece{Region: shown, Length: 64}
	refuse("length", reactor.Piece{Region: shown}, readWrite)
	refuse("length", reactor.Piece{Region: shown, Offset: 1, Length: 64}, readWrite)
	refuse("offset", reactor.Piece{Region: shown, Offset: -1, Length: 64}, readWrite)
	refuse("access", whole, 0)
	refuse("access", whole, verbs.AccessLocalWrite)
	readOnly := alloc(t, p.accepted, 64, verbs.AccessMWBind)
	refuse("region access", reactor.Piece{Region: readOnly, Length: 64}, verbs.AccessRemoteWrite)
	refuse("region access", reactor.Piece{Region: alloc(t, p.accepted, 64, verbs.AccessAll), Length: 64}, readWrite)
	_, err := p.accepted.Show(reactor.Piece{Region: alloc(t, p.dialed, 64, windowOnly), Length: 64}, readWrite)
	require.ErrorIs(t, err, verbs.ErrForeign)
	_, err = p.accepted.Show(reactor.Piece{}, readWrite)
	require.ErrorIs(t, err, verbs.ErrForeign)

	first, err := p.accepted.Show(whole, readWrite)
	require.NoError(t, err)
	_, err = p.accepted.Show(reactor.Piece{Region: readOnly, Length: 64}, verbs.AccessRemoteRead)
	require.NoError(t, err)
	_, err = p.accepted.Show(whole, readWrite)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.ErrorIs(t, p.accepted.Hide(first.RKey^0x100, nil), verbs.ErrState)
	requireParamError(t, p.accepted.Hide(first.RKey, &reactor.OpOptions{Solicited: true}), "Solicited")
	require.NoError(t, p.accepted.Hide(first.RKey, &reactor.OpOptions{Quiet: true}))
	_, err = p.accepted.Show(whole, readWrite)
	require.ErrorIs(t, err, verbs.ErrNoResources, "the key is not invalid yet")

	require.NoError(t, p.accepted.Close())
	_, err = p.accepted.Show(whole, readWrite)
	require.ErrorIs(t, err, reactor.ErrClosed)
	require.ErrorIs(t, p.accepted.Hide(first.RKey, nil), reactor.ErrClosed)
	p.closed(t)
	require.NoError(t, p.acceptCloseErr)
}

// TestRegionCloseHides closes a region that two windows show. The bind of one window has
// completed, and the bind of the other one is not posted yet. The peer's next access ends
// the connection.
func TestRegionCloseHides(t *testing.T) {
	onBothPaths(t, func(t *testing.T, connect func(client, server *hooks, cfg *reactor.Config) *pair) {
		read := 0
		client := &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) {
			if err == nil {
				read++
			}
		}}
		p := connect(client, &hooks{}, nil)
		shown, own := alloc(t, p.accepted, 64, windowOnly), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
		other := alloc(t, p.accepted, 64, windowOnly)
		whole, into := reactor.Piece{Region: shown, Length: 64}, reactor.Piece{Region: own, Length: 64}
		to, err := p.accepted.Show(whole, readWrite)
		require.NoError(t, err)
		kept, err := p.accepted.Show(reactor.Piece{Region: other, Length: 64}, readWrite)
		require.NoError(t, err)
		p.accepted.Flush()
		require.NoError(t, p.dialed.Read(to, nil, into))
		p.drive(t, func() bool { return read == 1 })
		_, err = p.accepted.Show(whole, readWrite)
		require.NoError(t, err)
		closed := make(chan error, 1)
		shown.CloseFunc(func(err error) { closed <- err })
		p.drive(t, func() bool { return len(closed) == 1 })
		require.NoError(t, <-closed)
		_, err = p.accepted.Show(whole, readWrite)
		require.ErrorIs(t, err, reactor.ErrClosed)

		require.NoError(t, p.dialed.Read(kept, nil, into))
		p.drive(t, func() bool { return read == 2 })
		require.NoError(t, p.dialed.Read(to, nil, into))
		p.closed(t)
		require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
	})
}

// TestWindowsOfClosedConn checks that the windows of a connection end with the
// connection, so that the region can be closed.
func TestWindowsOfClosedConn(t *testing.T) {
	for name, end := range map[string]func(*reactor.Conn) error{"Close": (*reactor.Conn).Close, "Abort": func(c *reactor.Conn) error { return c.Abort(nil) }} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, &hooks{}, &hooks{}, nil)
			shown := alloc(t, p.accepted, 64, windowOnly)
			for range 3 {
				_, err := p.accepted.Show(reactor.Piece{Region: shown, Length: 64}, readWrite)
				require.NoError(t, err)
			}
			require.NoError(t, end(p.accepted))
			p.closed(t)
			closed := make(chan error, 1)
			shown.CloseFunc(func(err error) { closed <- err })
			p.drive(t, func() bool { return len(closed) == 1 })
			require.NoError(t, <-closed)
		})
	}
}

// TestDeviceWithoutWindows checks the errors on a device that has no memory windows.
func TestDeviceWithoutWindows(t *testing.T) {
	conn := ownConn(t, nil, func(c *verbs.Caps) { c.MemoryWindows = false })
	_, err := conn.Show(reactor.Piece{Region: alloc(t, conn, 64, verbs.AccessAll), Length: 64}, readWrite)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.ErrorIs(t, conn.Send(nil, &reactor.OpOptions{Invalidate: 1}), verbs.ErrNotSupported)
	require.ErrorIs(t, conn.SendV(&reactor.OpOptions{Invalidate: 1}), verbs.ErrNotSupported)
}

// TestShowOfLargeRegion shows parts of a Region that consists of two memory regions. A
// part that is in both is refused.
func TestShowOfLargeRegion(t *testing.T) {
	const part = 1 << 16
	conn := ownConn(t, func(a *verbs.DeviceAttr) { a.MaxMRSize = part }, nil)
	region := alloc(t, conn, 2*part, windowOnly|verbs.AccessRemoteRead)
	for _, offset := range []int{part - 64, part} {
		to, err := conn.Show(reactor.Piece{Region: region, Offset: offset, Length: 64}, readWrite)
		require.NoError(t, err)
		at, err := region.Remote(conn.Info().Device, offset, 64)
		require.NoError(t, err)
		require.Equal(t, at.Addr, to.Addr)
	}
	_, err := conn.Show(reactor.Piece{Region: region, Offset: part - 63, Length: 64}, readWrite)
	requireParamError(t, err, "length")
}

// ownConn returns a connection of a loop with itself, on a device whose limits and
// abilities the parameters change.
func ownConn(t *testing.T, attr func(*verbs.DeviceAttr), caps func(*verbs.Caps)) (conn *reactor.Conn) {
	device, err := newStrictProvider(openSoft(t), attr, caps)
	require.NoError(t, err)
	l, err := reactor.NewLoop(device, &hooks{open: func(c *reactor.Conn) { conn = c }}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	ln, err := l.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, l.Engine().Dial(ln.Addr(), nil))
	drive(t, func() bool { return conn != nil }, l)
	return conn
}
