//go:build linux

package reactor_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A textCase is an error and its whole text.
type textCase struct {
	err  error
	want string
}

func checkTexts(t *testing.T, cases []textCase) {
	t.Helper()
	for _, c := range cases {
		assert.EqualError(t, c.err, c.want)
	}
}

// TestErrorTexts has the whole text of errors as a user meets them. Each names what is wrong.
func TestErrorTexts(t *testing.T) {
	foreign := netip.MustParseAddr("192.0.2.77") // RFC 5737; no host has it.
	failed := make(chan error, 1)
	e := start(t, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed <- err }}, &reactor.Config{Limits: reactor.Limits{ConnectTimeout: time.Second}})
	addr := listen(t, e)
	listenAt := func(at netip.AddrPort) error {
		_, err := e.Listen(at, nil)
		return err
	}
	dialFrom := func(local netip.Addr) error {
		require.NoError(t, e.Dial(addr, &reactor.DialOptions{LocalAddr: netip.AddrPortFrom(local, 0)}))
		return receive(t, failed)
	}
	checkTexts(t, []textCase{
		{listenAt(netip.AddrPort{}), "rdma: listen: address: missing, or not valid"},
		{listenAt(netip.AddrPortFrom(foreign, 7)), "rdma: listen: address not available: 192.0.2.77 is no address of this host"},
		{e.Dial(netip.AddrPort{}, nil), "rdma: dial: address: missing, or not valid"},
		{dialFrom(foreign), "dial " + addr.String() + ": address not available: 192.0.2.77 is no address of this host"},
		{dialFrom(netip.IPv6Loopback()), "dial " + addr.String() + ": source: ::1 is not of the family of the destination, 127.0.0.1"},
		{e.Start(), "rdma: start engine: wrong state: the engine was started before"},
	})
}

// TestConfigTexts has the errors of a Config whose fields do not fit together. Each names the
// field that the user has set.
func TestConfigTexts(t *testing.T) {
	create := func(c reactor.Config) error { _, err := reactor.NewLoop(openSoft(t), &hooks{}, &c); return err }
	checkTexts(t, []textCase{
		{create(reactor.Config{MaxLongMessage: 4096}), "rdma: configure reactor: MaxLongMessage 4096: must be more than MaxMessage, which is 4096"},
		{create(reactor.Config{MaxLongMessage: 5000, MaxMessage: 100}), "rdma: configure reactor: MaxMessage 100: must be at least 256, because MaxLongMessage is set"},
	})
}

// TestTooLongTexts has the texts for messages that are too long. Each says how to send them.
func TestTooLongTexts(t *testing.T) {
	const text = "rdma: send: message 5001: Config.MaxMessage is 4096, and "
	for _, test := range []struct {
		client, server int // Config.MaxLongMessage
		immediates     bool
		limit          int
		want           string
	}{
		{0, 0, false, 4096, "longer messages need Config.MaxLongMessage on both sides"},
		{1 << 20, 0, false, 4096, "the peer takes no long messages: it has not set Config.MaxLongMessage, or has set ImmediatesOnly"},
		{1 << 20, 5000, false, 5000, "the peer accepts long messages of up to 5000 bytes: see its Config.MaxLongMessage"},
		{1 << 20, 1 << 20, true, 4096, "a connection with ImmediatesOnly has no long messages"},
	} {
		var c *reactor.Conn
		server := newLoop(t, &hooks{}, &reactor.Config{MaxLongMessage: test.server})
		client := newLoop(t, &hooks{open: func(opened *reactor.Conn) { c = opened }}, &reactor.Config{MaxLongMessage: test.client})
		require.NoError(t, client.Engine().Dial(listen(t, server.Engine()), &reactor.DialOptions{ImmediatesOnly: test.immediates}))
		drive(t, func() bool { return c != nil }, client, server)
		r, err := client.Engine().Alloc(5001, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		require.NoError(t, err)
		require.Equal(t, test.limit, c.Info().MaxMessage)
		require.EqualError(t, c.Send(make([]byte, 5001), nil), text+test.want)
		require.EqualError(t, c.SendV(nil, reactor.Piece{Region: r, Length: 5001}), text+test.want)
	}
}

// TestCallErrorTexts has the errors of calls with wrong arguments, or in a wrong state.
func TestCallErrorTexts(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Limits: reactor.Limits{MaxPosted: 1}})
	c, l := p.dialed, p.client
	r, local := alloc(t, c, 64, verbs.AccessRemoteRead), alloc(t, c, 64, verbs.AccessLocalWrite)
	other := alloc(t, p.accepted, 64, verbs.AccessLocalWrite)
	foreign, err := p.accepted.Lease(0)
	require.NoError(t, err)
	whole := func(r *reactor.Region, n int) reactor.Piece { return reactor.Piece{Region: r, Length: n} }
	to := reactor.Remote{Addr: 8}
	read := func(p reactor.Piece) error { return c.Read(to, nil, p) }
	send := func(o reactor.OpOptions) error { return c.Send(nil, &o) }
	lease := func(n int) error { _, err := c.Lease(n); return err }
	setLen := func(n int) error {
		b, err := c.Lease(0)
		require.NoError(t, err)
		defer func() { require.NoError(t, b.Release()) }()
		return b.SetLen(n)
	}
	released := func() error {
		b, err := c.Lease(0)
		require.NoError(t, err)
		require.NoError(t, b.Release())
		return b.Release()
	}
	post := func() error {
		require.NoError(t, l.Post(func() {}))
		return l.Post(func() {})
	}
	inCallback := func(fn func() error) (err error) {
		require.NoError(t, p.server.Post(func() { err = fn() }))
		_, runErr := p.server.RunOnce(0)
		require.NoError(t, runErr)
		return err
	}
	dial := func(o reactor.DialOptions) error { return l.Engine().Dial(netip.MustParseAddrPort("127.0.0.1:7"), &o) }
	allocate := func(n int) error { _, err := l.Engine().Alloc(n, verbs.AccessLocalWrite); return err }
	describe := func(r *reactor.Region, offset int) error { _, err := r.Remote(c.Info().Device, offset, 64); return err }
	embedded := start(t, &hooks{}, nil).Loop(0)
	run := func(l *reactor.Loop) error { _, err := l.RunOnce(0); return err }
	checkTexts(t, []textCase{
		{l.SetIdle(9), "rdma: set idle policy: idle policy 9: the limit is 2"},
		{dial(reactor.DialOptions{Loop: p.server}), "rdma: dial: object of another device or domain: the loop is nil or of another engine"},
		{dial(reactor.DialOptions{Timeout: -time.Second}), "rdma: dial: timeout -1s: the minimum is 0s"},
		{dial(reactor.DialOptions{PrivateData: make([]byte, 57)}), "rdma: dial: private data 57: the limit is 56"},
		{dial(reactor.DialOptions{RetryCount: 8}), "rdma: dial: retry count 8: the limit is 7"},
		{post(), "rdma: post: too many posted functions: Config.Limits.MaxPosted is 1"},
		{run(embedded), "rdma: run: wrong state: an engine runs the loop; NewLoop makes loops for RunOnce"},
		{inCallback(func() error { return run(p.server) }), "rdma: run: wrong state: a callback of the loop is running"},
		{l.Engine().Wait(), "rdma: wait for engine: wrong state: the application runs the loop, which has not ended"},

		{lease(1<<30 + 1), "rdma: lease buffer: buffer size 1073741825: the limit is 1073741824"},
		{setLen(4097), "rdma: set length: buffer length 4097: the limit is 4096"},
		{released(), "rdma: release buffer: wrong state: the application does not own the buffer"},
		{c.SendBuffer(foreign, nil), "rdma: send: object of another device or domain: the buffer is of another loop or device, or the application does not own it"},
		{allocate(0), "rdma: allocate memory: size 0: the minimum is 1"},
		{describe(other, 0), "rdma: describe region: object of another device or domain: the device is nil or of another provider"},
		{describe(local, 0), "rdma: describe region: region: registered without AccessRemoteRead, AccessRemoteWrite and AccessRemoteAtomic, so no peer could use the key; Conn.Show needs none of them"},
		{describe(r, 1), "rdma: describe region: length 64: the end is outside the region"},
		{read(whole(nil, 1)), "rdma: use region: object of another device or domain: the region is nil or of another engine"},
		{read(whole(r, 64)), "rdma: read: region: a READ needs AccessLocalWrite"},
		{read(whole(r, 65)), "rdma: read: length 65: the end is outside the region"},
		{c.CompareSwap(reactor.Remote{Addr: 4}, 0, 0, nil), "rdma: atomic: remote address 4: not a multiple of 8"},
		{c.Hide(7, nil), "rdma: hide memory: wrong state: the key is not shown"},
		{send(reactor.OpOptions{Imm: 1}), "rdma: send: Imm 1: HasImm is false"},
		{send(reactor.OpOptions{Quiet: true}), "rdma: send: Quiet: without Notify a message is not reported"},
		{new(reactor.Remote).UnmarshalBinary(nil), "rdma: decode remote: protocol violation by the peer: 0 bytes instead of 12"},
	})
	require.NoError(t, c.Close())
	checkTexts(t, []textCase{
		{c.Close(), "rdma: close: closed: the connection is closing already, or has ended"},
		{c.Send(nil, nil), "rdma: send: closed: the connection is closing already, or has ended"},
	})
	p.drive(t, func() bool { return p.dialCloses == 1 && p.acceptCloses == 1 })
	require.NoError(t, l.Close())
	checkTexts(t, []textCase{
		{c.Abort(nil), "rdma: abort: closed: the connection is closing already, or has ended"},
		{lease(1), "rdma: lease buffer: closed: the connection has ended"},
		{run(l), "rdma: run: closed: the loop has ended"},
		{l.Post(func() {}), "rdma: post: closed: the loop has ended"},
		{dial(reactor.DialOptions{}), "rdma: dial: closed: the engine has ended"},
	})
}

// TestRequestErrorTexts has the errors of answers to a connection request, and what the peer
// gets if the engine or the handler rejects it.
func TestRequestErrorTexts(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		var requests []*reactor.ConnRequest
		var failed []error
		h := w.Host("host")
		cfg := &reactor.Config{Limits: reactor.Limits{DecisionTimeout: time.Second}}
		server := h.Process("server").Start(&hooks{request: func(r *reactor.ConnRequest) { requests = append(requests, r) }}, cfg)
		client := h.Process("client").Start(&hooks{dialError: func(_ *reactor.DialOptions, err error) { failed = append(failed, err) }}, nil)
		addr := h.AddrPort(1)
		_, err := server.Listen(addr, nil)
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, client.Dial(addr, nil))
		}
		w.Until(time.Second, func() bool { return len(requests) == 4 })
		r := requests[0]
		checkTexts(t, []textCase{
			{r.Accept(&reactor.AcceptOptions{PrivateData: make([]byte, 197)}), "rdma: accept: private data 197: the limit is 196"},
			{r.Accept(&reactor.AcceptOptions{Loop: client.Loop(0)}), "rdma: accept: object of another device or domain: the loop is nil or of another engine"},
			{r.Reject(make([]byte, 149)), "rdma: reject: private data 149: the limit is 148"},
		})
		require.NoError(t, r.Reject(nil))
		require.NoError(t, requests[1].Reject([]byte("no more seats")))
		checkTexts(t, []textCase{{r.Accept(nil), "rdma: accept: request already answered"}})
		w.Until(time.Second/2, func() bool { return len(failed) == 2 })
		w.Until(2*time.Second, func() bool { return len(failed) == 4 })
		checkTexts(t, []textCase{{requests[2].Accept(nil), "rdma: accept: request not answered in time"}})
		require.NoError(t, client.Dial(addr, nil))
		w.Until(time.Second, func() bool { return len(requests) == 5 })
		server.Stop()
		w.Until(time.Second, func() bool { return len(failed) == 5 })
		dial := "dial " + addr.String() + ": connection refused by the application"
		checkTexts(t, []textCase{
			{failed[0], dial},
			{failed[1], dial + `: "no more seats"`},
			{failed[2], dial + `: "the server has not answered the request in time"`},
			{failed[3], dial + `: "the server has not answered the request in time"`},
			{failed[4], dial + `: "the server is shutting down"`},
			{requests[4].Accept(nil), "rdma: accept: shutting down"},
		})
	})
}
