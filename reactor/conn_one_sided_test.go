package reactor_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestOneSidedOperations(t *testing.T) {
	type result struct {
		op  reactor.Op
		err error
	}
	var done []result
	var imm []uint32
	p := connect(t,
		&hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) { done = append(done, result{op, err}) }},
		&hooks{message: func(_ *reactor.Conn, msg reactor.Message) {
			require.True(t, msg.IsWriteImm())
			require.Empty(t, msg.Data())
			n, ok := msg.Imm()
			require.True(t, ok)
			imm = append(imm, n)
		}}, nil)
	target := alloc(t, p.accepted, 4096, verbs.AccessAll)
	source := alloc(t, p.dialed, 4096, verbs.AccessLocalWrite)
	remote := func(offset uint64) reactor.Remote {
		r := remoteOf(t, p.accepted, target)
		return reactor.Remote{Addr: r.Addr + offset, RKey: r.RKey}
	}
	finished := func(want ...reactor.Op) {
		t.Helper()
		p.drive(t, func() bool { return len(done) == len(want) })
		for i, op := range want {
			require.Equal(t, result{op, nil}, done[i])
		}
		done = nil
	}

	copy(source.Bytes(), "written")
	require.NoError(t, p.dialed.Write(remote(64), &reactor.OpOptions{Tag: 1}, reactor.Piece{Region: source, Length: 7}))
	require.NoError(t, p.dialed.Read(remote(64), &reactor.OpOptions{Tag: 2}, reactor.Piece{Region: source, Offset: 100, Length: 7}))
	finished(reactor.Op{Code: verbs.OpWrite, Tag: 1, Bytes: 7}, reactor.Op{Code: verbs.OpRead, Tag: 2, Bytes: 7})
	require.Equal(t, "written", string(target.Bytes()[64:71]))
	require.Equal(t, "written", string(source.Bytes()[100:107]))

	require.NoError(t, p.dialed.Write(remote(0), &reactor.OpOptions{HasImm: true, Imm: 77}, reactor.Piece{Region: source, Length: 7}))
	finished(reactor.Op{Code: verbs.OpWriteImm, Bytes: 7})
	p.drive(t, func() bool { return len(imm) == 1 })
	require.Equal(t, []uint32{77}, imm)

	binary.NativeEndian.PutUint64(target.Bytes()[8:], 40)
	require.NoError(t, p.dialed.FetchAdd(remote(8), 2, nil))
	require.NoError(t, p.dialed.CompareSwap(remote(8), 42, 1<<40, nil))
	require.NoError(t, p.dialed.CompareSwap(remote(8), 42, 0, nil))
	finished(
		reactor.Op{Code: verbs.OpFetchAdd, Bytes: 8, Value: 40},
		reactor.Op{Code: verbs.OpCompareSwap, Bytes: 8, Value: 42},
		reactor.Op{Code: verbs.OpCompareSwap, Bytes: 8, Value: 1 << 40},
	)

	var param *verbs.ParamError
	require.ErrorAs(t, p.dialed.FetchAdd(remote(9), 1, nil), &param)
	require.Equal(t, "remote address", param.Field)
}

// TestRefusedOperationFailsTheConnection checks that a forbidden operation ends the
// connection. Before that, every operation is reported.
func TestRefusedOperationFailsTheConnection(t *testing.T) {
	var tags []uint64
	var errs []error
	client := &hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
		tags, errs = append(tags, op.Tag), append(errs, err)
	}}
	p := connect(t, client, &hooks{}, nil)
	target := alloc(t, p.accepted, 64, verbs.AccessRemoteRead) // The client has no right to write to this region.
	source := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)

	require.NoError(t, p.dialed.Send([]byte("fine"), &reactor.OpOptions{Notify: true, Tag: 1}))
	require.NoError(t, p.dialed.Write(remoteOf(t, p.accepted, target), &reactor.OpOptions{Tag: 2}, reactor.Piece{Region: source, Length: 64}))
	require.NoError(t, p.dialed.Send([]byte("after"), &reactor.OpOptions{Notify: true, Tag: 3}))
	p.closed(t)
	require.Equal(t, []uint64{1, 2, 3}, tags)
	require.NoError(t, errs[0])
	require.Equal(t, verbs.StatusRemAccessErr, status(t, errs[1]))
	require.Equal(t, verbs.StatusWRFlushErr, status(t, errs[2]))
	require.Equal(t, verbs.StatusRemAccessErr, status(t, p.dialCloseErr))
	require.Error(t, p.acceptCloseErr)
	stats := p.dialed.Stats()
	require.EqualValues(t, 3, stats.Accepted)
	require.EqualValues(t, 1, stats.Confirmed)
	require.EqualValues(t, 2, stats.Failed)
}

// TestOperationsDoNotAllocate checks that READs, WRITEs, atomics and SendBuffer do not
// allocate.
func TestOperationsDoNotAllocate(t *testing.T) {
	done := 0
	p := connect(t, &hooks{completion: func(*reactor.Conn, reactor.Op, error) { done++ }}, &hooks{}, nil)
	target := alloc(t, p.accepted, 64, verbs.AccessAll)
	source := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	local, remote := reactor.Piece{Region: source, Length: 64}, remoteOf(t, p.accepted, target)
	var failed error
	note := func(err error) {
		if err != nil {
			failed = err
		}
	}
	round := func() {
		buf, err := p.dialed.Lease(0)
		note(err)
		note(buf.SetLen(buf.Cap()))
		note(p.dialed.SendBuffer(buf, &reactor.OpOptions{Notify: true}))
		note(p.dialed.Write(remote, nil, local))
		note(p.dialed.Read(remote, nil, local))
		note(p.dialed.FetchAdd(remote, 1, nil))
		for want := done + 4; done < want && failed == nil; {
			_, err := p.client.RunOnce(0)
			note(err)
			_, err = p.server.RunOnce(0)
			note(err)
		}
	}
	for range 500 {
		round()
	}
	require.Zero(t, testing.AllocsPerRun(500, round))
	require.NoError(t, failed)
}

// TestOperationsRefuseOptions checks that an operation with an unsupported option is
// refused.
func TestOperationsRefuseOptions(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	mr := alloc(t, p.dialed, 8, verbs.AccessLocalWrite)
	buf, err := p.dialed.Lease(0)
	require.NoError(t, err)
	local, to, c := reactor.Piece{Region: mr, Length: 8}, reactor.Remote{Addr: 8}, p.dialed
	operations := map[string]func(reactor.OpOptions) error{
		"send":         func(o reactor.OpOptions) error { return c.Send(nil, &o) },
		"send buffer":  func(o reactor.OpOptions) error { return c.SendBuffer(buf, &o) },
		"write":        func(o reactor.OpOptions) error { return c.Write(to, &o, local) },
		"write bytes":  func(o reactor.OpOptions) error { return c.WriteBytes(to, nil, &o) },
		"read":         func(o reactor.OpOptions) error { return c.Read(to, &o, local) },
		"compare swap": func(o reactor.OpOptions) error { return c.CompareSwap(to, 0, 0, &o) },
		"fetch add":    func(o reactor.OpOptions) error { return c.FetchAdd(to, 0, &o) },
	}
	refused := func(field string, o reactor.OpOptions, names ...string) {
		t.Helper()
		for _, name := range names {
			var param *verbs.ParamError
			require.ErrorAs(t, operations[name](o), &param, name)
			require.Equal(t, field, param.Field, name)
			require.EqualValues(t, o.Imm, param.Value, name)
		}
	}
	refused("Imm", reactor.OpOptions{Imm: 3}, "send", "send buffer", "write", "write bytes", "read", "compare swap", "fetch add")
	refused("HasImm", reactor.OpOptions{HasImm: true}, "read", "compare swap", "fetch add")
	require.ErrorContains(t, c.Read(to, &reactor.OpOptions{HasImm: true}, local), "rdma: read: HasImm: only messages and WRITEs")
	refused("Solicited", reactor.OpOptions{Solicited: true}, "write", "read", "compare swap", "fetch add")
	require.Zero(t, c.Stats().Accepted)
	require.NoError(t, buf.Release())
}

func status(t *testing.T, err error) verbs.Status {
	t.Helper()
	var failed *verbs.CompletionError
	require.ErrorAs(t, err, &failed)
	return failed.Status
}

// TestVectoredOperations checks SendV, Write and Read with pieces of two regions.
func TestVectoredOperations(t *testing.T) {
	var received []string
	var imms []uint32
	var ops []reactor.Op
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
		require.NoError(t, err)
		ops = append(ops, op)
	}}, &hooks{message: func(_ *reactor.Conn, msg reactor.Message) {
		imm, _ := msg.Imm()
		received, imms = append(received, string(msg.Data())), append(imms, imm)
	}}, nil)
	target, a, b := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessLocalWrite), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	to := remoteOf(t, p.accepted, target)
	copy(a.Bytes(), "hello world")
	copy(b.Bytes(), ", ")
	pieces := []reactor.Piece{{Region: a, Length: 5}, {}, {Region: b, Length: 2}, {Region: b, Offset: 9}, {Region: a, Offset: 6, Length: 5}}
	require.NoError(t, p.dialed.SendV(&reactor.OpOptions{Tag: 1}, pieces...))
	require.NoError(t, p.dialed.SendV(&reactor.OpOptions{Tag: 2, Imm: 7, HasImm: true}))
	require.NoError(t, p.dialed.Write(to, &reactor.OpOptions{Tag: 3}, pieces...))
	require.NoError(t, p.dialed.Write(to, &reactor.OpOptions{Tag: 4, Imm: 8, HasImm: true, Solicited: true}, pieces[:1]...))
	into := []reactor.Piece{{Region: b, Offset: 32, Length: 7}, {Region: a, Offset: 32, Length: 5}}
	require.NoError(t, p.dialed.Read(to, &reactor.OpOptions{Tag: 5}, into...))
	closed := make(chan error, 2)
	for _, r := range []*reactor.Region{a, b} {
		r.CloseFunc(func(err error) { closed <- err })
	}
	p.drive(t, func() bool { return len(ops) == 5 && len(received) == 3 })
	require.Equal(t, []reactor.Op{
		{Code: verbs.OpSend, Tag: 1, Bytes: 12}, {Code: verbs.OpSendImm, Tag: 2},
		{Code: verbs.OpWrite, Tag: 3, Bytes: 12}, {Code: verbs.OpWriteImm, Tag: 4, Bytes: 5}, {Code: verbs.OpRead, Tag: 5, Bytes: 12},
	}, ops)
	require.Equal(t, []string{"hello, world", "", ""}, received)
	require.Equal(t, []uint32{0, 7, 8}, imms)
	require.Equal(t, "hello, world", string(target.Bytes()[:12]))
	require.NoError(t, receive(t, closed))
	require.NoError(t, receive(t, closed))
}

// TestVectoredErrors checks the limits of SendV, Write, Read and WriteBytes, and their
// options.
func TestVectoredErrors(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{Transport: reactor.Transport{MaxPieces: 3}, MaxMessage: 64})
	r := alloc(t, p.dialed, 100, verbs.AccessLocalWrite)
	c, piece := p.dialed, reactor.Piece{Region: r, Length: 25}
	refused := func(field string, err error) {
		t.Helper()
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.Equal(t, field, param.Field)
	}
	three := []reactor.Piece{piece, piece, piece}
	four := append(three, piece)
	var to reactor.Remote
	refused("pieces", c.SendV(nil, four...))
	refused("pieces", c.Read(to, nil, four...))
	refused("message", c.SendV(nil, three...))
	refused("length", c.Write(to, nil, piece, reactor.Piece{Region: r, Length: 101}))
	refused("Imm", c.SendV(&reactor.OpOptions{Imm: 1}))
	refused("HasImm", c.Read(to, &reactor.OpOptions{HasImm: true}))
	refused("Solicited", c.Write(to, &reactor.OpOptions{Solicited: true}))
	refused("Quiet", c.WriteBytes(to, nil, &reactor.OpOptions{Quiet: true, Notify: true}))
	refused("Quiet", c.Send(nil, &reactor.OpOptions{Quiet: true}))
	refused("Quiet", c.FetchAdd(to, 1, &reactor.OpOptions{Quiet: true}))
	require.Zero(t, c.Stats().Accepted)
	_, err := reactor.NewLoop(openSoft(t), &hooks{}, &reactor.Config{Transport: reactor.Transport{MaxPieces: 17}})
	refused("MaxPieces", err)
}

// TestQuietOperations checks that quiet operations are confirmed by a later one, and that
// each failed one is reported once.
func TestQuietOperations(t *testing.T) {
	var tags []uint64
	var errs []error
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, op reactor.Op, err error) {
		tags, errs = append(tags, op.Tag), append(errs, err)
	}}, &hooks{}, nil)
	target, source := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	to, local := remoteOf(t, p.accepted, target), reactor.Piece{Region: source, Length: 64}
	quiet := func(tag uint64, to reactor.Remote) {
		t.Helper()
		require.NoError(t, p.dialed.Write(to, &reactor.OpOptions{Tag: tag, Quiet: true}, local))
	}
	for i := range uint64(5) {
		quiet(i, to)
	}
	require.NoError(t, p.dialed.Read(to, &reactor.OpOptions{Tag: 5}, local))
	p.drive(t, func() bool { return len(tags) > 0 })
	require.Equal(t, []uint64{5}, tags)
	require.EqualValues(t, 6, p.dialed.Stats().Confirmed)
	require.Zero(t, p.dialed.Stats().InFlight)

	quiet(6, to)
	quiet(7, reactor.Remote{Addr: 8, RKey: 1})
	quiet(8, to)
	require.NoError(t, p.dialed.Write(to, &reactor.OpOptions{Tag: 9}, local))
	p.closed(t)
	require.Equal(t, []uint64{5, 7, 8, 9}, tags)
	require.Equal(t, verbs.StatusRemAccessErr, status(t, errs[1]))
	require.Equal(t, verbs.StatusWRFlushErr, status(t, errs[2]))
}

// TestQuietOperationsDoNotHoldRegions checks that a region closes although its last
// operations have no completion of their own.
func TestQuietOperationsDoNotHoldRegions(t *testing.T) {
	p := connect(t, &hooks{completion: func(*reactor.Conn, reactor.Op, error) { t.Error("a quiet operation was reported") }}, &hooks{}, nil)
	target, source := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	require.NoError(t, p.dialed.Write(remoteOf(t, p.accepted, target), &reactor.OpOptions{Quiet: true}, reactor.Piece{Region: source, Length: 64}))
	require.NoError(t, p.dialed.SendV(&reactor.OpOptions{Quiet: true}, reactor.Piece{Region: source, Length: 64}))
	for range 10 {
		_, err := p.client.RunOnce(0)
		require.NoError(t, err)
		_, err = p.server.RunOnce(0)
		require.NoError(t, err)
	}
	require.Equal(t, 2, p.dialed.Stats().InFlight, "nothing confirms the operations")
	closed := make(chan error, 1)
	source.CloseFunc(func(err error) { closed <- err })
	p.drive(t, func() bool { return p.dialed.Stats().InFlight == 0 })
	require.NoError(t, receive(t, closed))
}

// TestQuietOperationBehindAProbe checks that a region closes although its last operation
// was posted after a probe. A second probe must confirm the operation.
func TestQuietOperationBehindAProbe(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	target, source := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	reactor.Probe(p.dialed)
	require.NoError(t, p.dialed.Write(remoteOf(t, p.accepted, target), &reactor.OpOptions{Quiet: true}, reactor.Piece{Region: source, Length: 64}))
	closed := make(chan error, 1)
	source.CloseFunc(func(err error) { closed <- err })
	p.drive(t, func() bool { return p.dialed.Stats().InFlight == 0 })
	require.NoError(t, receive(t, closed))
}

// TestWriteBytes checks that WriteBytes copies data of any length, and that a WRITE
// without bytes carries immediate data.
func TestWriteBytes(t *testing.T) {
	done := 0
	var imms []uint32
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) { require.NoError(t, err); done++ }},
		&hooks{message: func(_ *reactor.Conn, msg reactor.Message) {
			require.True(t, msg.IsWriteImm())
			imm, _ := msg.Imm()
			imms = append(imms, imm)
		}}, nil)
	target := alloc(t, p.accepted, 100_000, verbs.AccessAll)
	to := remoteOf(t, p.accepted, target)
	short, long, longer := []byte("short"), bytes.Repeat([]byte("x"), 4000), bytes.Repeat([]byte("y"), 70_000)
	require.NoError(t, p.dialed.WriteBytes(to, short, nil))
	to.Addr += 5
	require.NoError(t, p.dialed.WriteBytes(to, long, &reactor.OpOptions{HasImm: true, Imm: 1}))
	to.Addr += 4000
	require.NoError(t, p.dialed.WriteBytes(to, longer, nil))
	clear(short)
	clear(long)
	clear(longer)
	require.NoError(t, p.dialed.WriteBytes(reactor.Remote{}, nil, &reactor.OpOptions{HasImm: true, Imm: 2}))
	require.NoError(t, p.dialed.Write(reactor.Remote{}, &reactor.OpOptions{HasImm: true, Imm: 3}))
	p.drive(t, func() bool { return done == 5 && len(imms) == 3 })
	require.Equal(t, "short"+strings.Repeat("x", 4000)+strings.Repeat("y", 70_000), string(target.Bytes()[:74_005]))
	require.Equal(t, []uint32{1, 2, 3}, imms)
}

// TestVectoredOperationsDoNotAllocate checks that operations with pieces allocate
// nothing.
func TestVectoredOperationsDoNotAllocate(t *testing.T) {
	done := 0
	p := connect(t, &hooks{completion: func(*reactor.Conn, reactor.Op, error) { done++ }}, &hooks{}, nil)
	target, source := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	to := remoteOf(t, p.accepted, target)
	pieces := []reactor.Piece{{Region: source, Length: 32}, {Region: source, Offset: 40, Length: 8}}
	short := []byte("short")
	var failed error
	note := func(err error) {
		if err != nil {
			failed = err
		}
	}
	round := func() {
		note(p.dialed.Write(to, &reactor.OpOptions{Quiet: true}, pieces...))
		note(p.dialed.WriteBytes(to, short, &reactor.OpOptions{Quiet: true}))
		note(p.dialed.SendV(nil, pieces...))
		note(p.dialed.Read(to, nil, pieces...))
		for want := done + 2; done < want && failed == nil; {
			_, err := p.client.RunOnce(0)
			note(err)
			_, err = p.server.RunOnce(0)
			note(err)
		}
	}
	for range 500 {
		round()
	}
	require.Zero(t, testing.AllocsPerRun(500, round))
	require.NoError(t, failed)
}
