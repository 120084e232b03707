package reactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRegionServesAllLoops checks that one Remote is valid for connections of all loops
// of the engine, and that one Region is the source of WRITEs on all loops.
func TestRegionServesAllLoops(t *testing.T) {
	const loops = 2
	server := start(t, &hooks{}, &reactor.Config{NumLoops: loops})
	target, err := server.Alloc(loops, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	require.NoError(t, err)
	remote, err := target.Remote(reactor.FirstDevice(server), 0, loops)
	require.NoError(t, err)

	var source *reactor.Region
	done := make(chan error, loops)
	client := start(t, &hooks{
		open: func(c *reactor.Conn) {
			i := c.Loop().Index()
			to := remote
			to.Addr += uint64(i)
			if err := c.Write(to, nil, reactor.Piece{Region: source, Offset: i, Length: 1}); err != nil {
				done <- err
			}
		},
		completion: func(_ *reactor.Conn, _ reactor.Op, err error) { done <- err },
	}, &reactor.Config{NumLoops: loops})
	source, err = client.Register([]byte("ab"), verbs.AccessLocalWrite)
	require.NoError(t, err)
	addr := listen(t, server)
	for i := range loops {
		require.NoError(t, client.Dial(addr, &reactor.DialOptions{Loop: client.Loop(i)}))
	}
	for range loops {
		require.NoError(t, receive(t, done))
	}
	require.Equal(t, "ab", string(target.Bytes()))
	require.NoError(t, source.Close())
	require.NoError(t, target.Close())
}

// TestRegionCloseWaits checks that Close waits for the operations under way on a loop,
// refuses new ones, and makes the keys of the peers invalid.
func TestRegionCloseWaits(t *testing.T) {
	completed := 0
	p := connect(t, &hooks{completion: func(*reactor.Conn, reactor.Op, error) { completed++ }}, &hooks{}, nil)
	target, source := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessRemoteRead)
	to := remoteOf(t, p.accepted, target)
	for range 2 {
		require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: source, Length: 64}))
	}
	closed := make(chan error, 3)
	source.CloseFunc(func(err error) { closed <- err })
	source.CloseFunc(func(err error) { closed <- err })
	inTurn(t, p.client, func() {
		require.Zero(t, completed, "the WRITEs are posted after this function")
		require.ErrorIs(t, p.dialed.Write(to, nil, reactor.Piece{Region: source, Length: 64}), reactor.ErrClosed)
		require.Empty(t, closed)
	})
	_, err := source.Remote(p.dialed.Info().Device, 0, 1)
	require.ErrorIs(t, err, reactor.ErrClosed)
	p.drive(t, func() bool { return completed == 2 })
	require.NoError(t, receive(t, closed))
	require.NoError(t, receive(t, closed))
	source.CloseFunc(func(err error) { closed <- err })
	require.NoError(t, receive(t, closed))

	other := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	target.CloseFunc(func(err error) { closed <- err })
	inTurn(t, p.server, func() {})
	require.NoError(t, receive(t, closed))
	require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: other, Length: 64}))
	p.closed(t)
	require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
}

// TestRegionCloseOfFailedConn checks that the operations of a connection that fails no
// longer use the region.
func TestRegionCloseOfFailedConn(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	source := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	for range 3 {
		require.NoError(t, p.dialed.Read(reactor.Remote{Addr: 8, RKey: 1}, nil, reactor.Piece{Region: source, Length: 64}))
	}
	closed := make(chan error, 1)
	source.CloseFunc(func(err error) { closed <- err })
	p.closed(t)
	require.NoError(t, receive(t, closed))
}

// TestRegionCloseDoesNotWaitForItself checks that Close fails in a callback, and while a
// loop made with NewLoop is in use. CloseFunc works in a callback.
func TestRegionCloseDoesNotWaitForItself(t *testing.T) {
	results := make(chan error, 2)
	e := start(t, &hooks{}, nil)
	region, err := e.Alloc(8, verbs.AccessLocalWrite)
	require.NoError(t, err)
	require.NoError(t, e.Loop(0).Post(func() {
		results <- region.Close()
		region.CloseFunc(func(err error) { results <- err })
	}))
	require.ErrorIs(t, receive(t, results), verbs.ErrState)
	require.NoError(t, receive(t, results))
	require.NoError(t, region.Close(), "a second call returns the first result")

	l := newLoop(t, &hooks{}, nil)
	region, err = l.Engine().Alloc(8, verbs.AccessLocalWrite)
	require.NoError(t, err)
	require.ErrorIs(t, region.Close(), verbs.ErrState)
}

// TestRegionWithoutLoops checks regions of an engine before its start and after its end, and
// that Stats.RegionBytes counts them.
func TestRegionWithoutLoops(t *testing.T) {
	e, err := reactor.New(openSoft(t), &hooks{}, &reactor.Config{NumLoops: 2})
	require.NoError(t, err)
	first, err := e.Alloc(8, verbs.AccessAll)
	require.NoError(t, err)
	require.EqualValues(t, 8, e.Stats().RegionBytes)
	require.NoError(t, first.Close(), "the engine was not started")
	require.Zero(t, e.Stats().RegionBytes)
	second, err := e.Alloc(8, verbs.AccessAll)
	require.NoError(t, err)
	require.NoError(t, e.Start())
	registered, err := e.Register(make([]byte, 100), verbs.AccessAll)
	require.NoError(t, err)
	require.EqualValues(t, 108, e.Stats().RegionBytes)
	require.NoError(t, registered.Close())
	require.EqualValues(t, 8, e.Stats().RegionBytes)
	shutdown(t, e)
	require.Zero(t, e.Stats().RegionBytes)
	require.NoError(t, second.Close(), "the end of the engine has closed the region")
	_, err = e.Alloc(8, verbs.AccessAll)
	require.ErrorIs(t, err, reactor.ErrClosed)
	_, err = e.Register(make([]byte, 8), verbs.AccessAll)
	require.ErrorIs(t, err, reactor.ErrClosed)
}

// TestRegionErrors checks the errors for memory and pieces that are not valid.
func TestRegionErrors(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	e := p.dialed.Loop().Engine()
	var param *verbs.ParamError
	_, err := e.Register(nil, verbs.AccessLocalWrite)
	require.ErrorAs(t, err, &param)
	_, err = e.Alloc(-1, verbs.AccessLocalWrite)
	require.ErrorAs(t, err, &param)
	_, err = e.Alloc(8, verbs.AccessRemoteWrite)
	require.ErrorAs(t, err, &param)
	require.Equal(t, "access", param.Field)

	own, foreign := alloc(t, p.dialed, 64, 0), alloc(t, p.accepted, 64, verbs.AccessLocalWrite)
	write := func(piece reactor.Piece) error {
		return p.dialed.Write(reactor.Remote{}, nil, piece)
	}
	require.ErrorIs(t, write(reactor.Piece{Region: foreign, Length: 8}), verbs.ErrForeign)
	require.ErrorIs(t, write(reactor.Piece{Length: 8}), verbs.ErrForeign)
	for _, c := range []struct {
		offset, length int
		field          string
	}{{-1, 1, "offset"}, {65, 0, "offset"}, {0, 65, "length"}, {64, 1, "length"}, {8, -1, "length"}} {
		err := write(reactor.Piece{Region: own, Offset: c.offset, Length: c.length})
		require.ErrorAs(t, err, &param, "%v", c)
		require.Equal(t, c.field, param.Field)
		_, err = own.Remote(p.dialed.Info().Device, c.offset, c.length)
		require.ErrorAs(t, err, &param, "%v", c)
	}
	err = p.dialed.Read(reactor.Remote{}, nil, reactor.Piece{Region: own, Length: 8})
	require.ErrorContains(t, err, "AccessLocalWrite")
	_, err = own.Remote(p.accepted.Info().Device, 0, 8)
	require.ErrorIs(t, err, verbs.ErrForeign)
	_, err = own.Remote(reactor.FirstDevice(p.server.Engine()), 0, 8)
	require.ErrorIs(t, err, verbs.ErrForeign)
	require.Zero(t, p.dialed.Stats().Accepted)
}

// TestRegionLargerThanTheDeviceAllows checks Regions whose registration consists of three
// memory regions. One was made by Alloc, and the other one by Register.
func TestRegionLargerThanTheDeviceAllows(t *testing.T) {
	const part, size = 1 << 16, 150_000
	provider, err := newStrictProvider(openSoft(t), func(a *verbs.DeviceAttr) { a.MaxMRSize = part + 100 }, nil)
	require.NoError(t, err)
	var server, client *reactor.Conn
	ended := 0
	l, err := reactor.NewLoop(provider, &hooks{open: func(c *reactor.Conn) { server = c }}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	peer := newLoop(t, &hooks{
		open:       func(c *reactor.Conn) { client = c },
		completion: func(_ *reactor.Conn, _ reactor.Op, err error) { ended++; require.NoError(t, err) },
	}, nil)
	require.NoError(t, peer.Engine().Dial(listen(t, l.Engine()), nil))
	drive(t, func() bool { return server != nil && client != nil }, l, peer)

	registered, err := l.Engine().Register(make([]byte, size), verbs.AccessAll)
	require.NoError(t, err)
	for _, target := range []*reactor.Region{alloc(t, server, size, verbs.AccessAll), registered} {
		source := alloc(t, client, size, verbs.AccessLocalWrite)
		for i := range source.Bytes() {
			source.Bytes()[i] = byte(i % 251)
		}
		dev := server.Info().Device
		const limit = part // MaxMRSize, rounded down to pages
		var param *verbs.ParamError
		_, err := target.Remote(dev, 10, limit)
		require.ErrorAs(t, err, &param)
		require.EqualValues(t, limit-10, param.Limit)
		want := ended
		for at := 10; at < size; want++ {
			n := min(limit-at%limit, size-at)
			remote, err := target.Remote(dev, at, n)
			require.NoError(t, err)
			require.NoError(t, client.Write(remote, nil, reactor.Piece{Region: source, Offset: at, Length: n}))
			at += n
		}
		require.Equal(t, 3, want-ended)
		drive(t, func() bool { return ended == want }, l, peer)
		require.Equal(t, source.Bytes()[10:], target.Bytes()[10:])
		require.ErrorIs(t, target.Discard(0, part), verbs.ErrNotSupported)
	}
}

// TestRegionDiscard checks that Alloc's memory can be discarded, and other memory not.
func TestRegionDiscard(t *testing.T) {
	e := start(t, &hooks{}, nil)
	own, err := e.Alloc(1<<16, verbs.AccessLocalWrite)
	require.NoError(t, err)
	own.Bytes()[1] = 1
	require.NoError(t, own.Discard(0, 1<<16))
	require.Zero(t, own.Bytes()[1])
	require.NoError(t, own.Close())
	require.ErrorIs(t, own.Discard(0, 1<<16), reactor.ErrClosed)
	other, err := e.Register(make([]byte, 1<<16), verbs.AccessLocalWrite)
	require.NoError(t, err)
	require.ErrorIs(t, other.Discard(0, 1<<16), verbs.ErrNotSupported)
}
