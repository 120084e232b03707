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
	require.NoError(t, p.dialed.Write(reactor.Piece{Region: source, Length: 7}, remote(64), reactor.SendOptions{Tag: 1}))
	require.NoError(t, p.dialed.Read(reactor.Piece{Region: source, Offset: 100, Length: 7}, remote(64), reactor.SendOptions{Tag: 2}))
	finished(reactor.Op{Code: verbs.OpWrite, Tag: 1, Bytes: 7}, reactor.Op{Code: verbs.OpRead, Tag: 2, Bytes: 7})
	require.Equal(t, "written", string(target.Bytes()[64:71]))
	require.Equal(t, "written", string(source.Bytes()[100:107]))

	require.NoError(t, p.dialed.WriteImm(reactor.Piece{Region: source, Length: 7}, remote(0), 77, reactor.SendOptions{}))
	finished(reactor.Op{Code: verbs.OpWriteImm, Bytes: 7})
	p.drive(t, func() bool { return len(imm) == 1 })
	require.Equal(t, []uint32{77}, imm)

	binary.NativeEndian.PutUint64(target.Bytes()[8:], 40)
	require.NoError(t, p.dialed.FetchAdd(remote(8), 2, reactor.SendOptions{}))
	require.NoError(t, p.dialed.CompareSwap(remote(8), 42, 1<<40, reactor.SendOptions{}))
	require.NoError(t, p.dialed.CompareSwap(remote(8), 42, 0, reactor.SendOptions{}))
	finished(
		reactor.Op{Code: verbs.OpFetchAdd, Bytes: 8, Value: 40},
		reactor.Op{Code: verbs.OpCompareSwap, Bytes: 8, Value: 42},
		reactor.Op{Code: verbs.OpCompareSwap, Bytes: 8, Value: 1 << 40},
	)

	var param *verbs.ParamError
	require.ErrorAs(t, p.dialed.FetchAdd(remote(9), 1, reactor.SendOptions{}), &param)
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
	target := alloc(t, p.accepted, 64, verbs.AccessLocalWrite) // The client has no right to write to this region.
	source := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)

	require.NoError(t, p.dialed.SendWith([]byte("fine"), reactor.SendOptions{Notify: true, Tag: 1}))
	require.NoError(t, p.dialed.Write(reactor.Piece{Region: source, Length: 64}, remoteOf(t, p.accepted, target), reactor.SendOptions{Tag: 2}))
	require.NoError(t, p.dialed.SendWith([]byte("after"), reactor.SendOptions{Notify: true, Tag: 3}))
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
		buf, err := p.dialed.Lease()
		note(err)
		note(buf.SetLen(buf.Cap()))
		note(p.dialed.SendBufferWith(buf, reactor.SendOptions{Notify: true}))
		note(p.dialed.Write(local, remote, reactor.SendOptions{}))
		note(p.dialed.Read(local, remote, reactor.SendOptions{}))
		note(p.dialed.FetchAdd(remote, 1, reactor.SendOptions{}))
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
	buf, err := p.dialed.Lease()
	require.NoError(t, err)
	local, to, c := reactor.Piece{Region: mr, Length: 8}, reactor.Remote{Addr: 8}, p.dialed
	operations := map[string]func(reactor.SendOptions) error{
		"send":         func(o reactor.SendOptions) error { return c.SendWith(nil, o) },
		"send buffer":  func(o reactor.SendOptions) error { return c.SendBufferWith(buf, o) },
		"write":        func(o reactor.SendOptions) error { return c.Write(local, to, o) },
		"write imm":    func(o reactor.SendOptions) error { return c.WriteImm(local, to, 1, o) },
		"read":         func(o reactor.SendOptions) error { return c.Read(local, to, o) },
		"compare swap": func(o reactor.SendOptions) error { return c.CompareSwap(to, 0, 0, o) },
		"fetch add":    func(o reactor.SendOptions) error { return c.FetchAdd(to, 0, o) },
	}
	refused := func(field string, o reactor.SendOptions, names ...string) {
		t.Helper()
		for _, name := range names {
			var param *verbs.ParamError
			require.ErrorAs(t, operations[name](o), &param, name)
			require.Equal(t, field, param.Field, name)
			require.EqualValues(t, o.Imm, param.Value, name)
		}
	}
	refused("Imm", reactor.SendOptions{Imm: 3}, "send", "send buffer", "write", "write imm", "read", "compare swap", "fetch add")
	refused("HasImm", reactor.SendOptions{HasImm: true}, "write", "write imm", "read", "compare swap", "fetch add")
	require.ErrorContains(t, c.Write(local, to, reactor.SendOptions{HasImm: true}), "rdma: write: HasImm: only SendWith")
	refused("Solicited", reactor.SendOptions{Solicited: true}, "write", "read", "compare swap", "fetch add")
	require.Zero(t, c.Stats().Accepted)
	require.NoError(t, buf.Release())
}

func status(t *testing.T, err error) verbs.Status {
	t.Helper()
	var failed *verbs.CompletionError
	require.ErrorAs(t, err, &failed)
	return failed.Status
}

// TestVectoredOperations checks SendV, WriteV and ReadV with pieces of two regions.
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
	require.NoError(t, p.dialed.SendV(pieces, reactor.SendOptions{Tag: 1}))
	require.NoError(t, p.dialed.SendV(nil, reactor.SendOptions{Tag: 2, Imm: 7, HasImm: true}))
	require.NoError(t, p.dialed.WriteV(pieces, to, reactor.SendOptions{Tag: 3}))
	require.NoError(t, p.dialed.WriteV(pieces[:1], to, reactor.SendOptions{Tag: 4, Imm: 8, HasImm: true, Solicited: true}))
	into := []reactor.Piece{{Region: b, Offset: 32, Length: 7}, {Region: a, Offset: 32, Length: 5}}
	require.NoError(t, p.dialed.ReadV(into, to, reactor.SendOptions{Tag: 5}))
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

// TestVectoredErrors checks the limits of SendV, WriteV, ReadV and WriteBytes, and their
// options.
func TestVectoredErrors(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, &reactor.Config{MaxPieces: 3, MaxMessage: 64})
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
	refused("pieces", c.SendV(four, reactor.SendOptions{}))
	refused("pieces", c.ReadV(four, to, reactor.SendOptions{}))
	refused("message", c.SendV(three, reactor.SendOptions{}))
	refused("length", c.WriteV([]reactor.Piece{piece, {Region: r, Length: 101}}, to, reactor.SendOptions{}))
	refused("Imm", c.SendV(nil, reactor.SendOptions{Imm: 1}))
	refused("HasImm", c.ReadV(nil, to, reactor.SendOptions{HasImm: true}))
	refused("Solicited", c.WriteV(nil, to, reactor.SendOptions{Solicited: true}))
	refused("Quiet", c.WriteBytes(nil, to, reactor.SendOptions{Quiet: true, Notify: true}))
	refused("Quiet", c.SendWith(nil, reactor.SendOptions{Quiet: true}))
	refused("Quiet", c.FetchAdd(to, 1, reactor.SendOptions{Quiet: true}))
	require.Zero(t, c.Stats().Accepted)
	_, err := reactor.NewLoop(openSoft(t), &hooks{}, &reactor.Config{MaxPieces: 17})
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
		require.NoError(t, p.dialed.Write(local, to, reactor.SendOptions{Tag: tag, Quiet: true}))
	}
	for i := range uint64(5) {
		quiet(i, to)
	}
	require.NoError(t, p.dialed.Read(local, to, reactor.SendOptions{Tag: 5}))
	p.drive(t, func() bool { return len(tags) > 0 })
	require.Equal(t, []uint64{5}, tags)
	require.EqualValues(t, 6, p.dialed.Stats().Confirmed)
	require.Zero(t, p.dialed.InFlight())

	quiet(6, to)
	quiet(7, reactor.Remote{Addr: 8, RKey: 1})
	quiet(8, to)
	require.NoError(t, p.dialed.Write(local, to, reactor.SendOptions{Tag: 9}))
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
	require.NoError(t, p.dialed.Write(reactor.Piece{Region: source, Length: 64}, remoteOf(t, p.accepted, target), reactor.SendOptions{Quiet: true}))
	require.NoError(t, p.dialed.SendV([]reactor.Piece{{Region: source, Length: 64}}, reactor.SendOptions{Quiet: true}))
	for range 10 {
		_, err := p.client.RunOnce(0)
		require.NoError(t, err)
		_, err = p.server.RunOnce(0)
		require.NoError(t, err)
	}
	require.Equal(t, 2, p.dialed.InFlight(), "nothing confirms the operations")
	closed := make(chan error, 1)
	source.CloseFunc(func(err error) { closed <- err })
	p.drive(t, func() bool { return p.dialed.InFlight() == 0 })
	require.NoError(t, receive(t, closed))
}

// TestQuietOperationBehindAProbe checks that a region closes although its last operation
// was posted after a probe. A second probe must confirm the operation.
func TestQuietOperationBehindAProbe(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	target, source := alloc(t, p.accepted, 64, verbs.AccessAll), alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	reactor.Probe(p.dialed)
	require.NoError(t, p.dialed.Write(reactor.Piece{Region: source, Length: 64}, remoteOf(t, p.accepted, target), reactor.SendOptions{Quiet: true}))
	closed := make(chan error, 1)
	source.CloseFunc(func(err error) { closed <- err })
	p.drive(t, func() bool { return p.dialed.InFlight() == 0 })
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
	require.NoError(t, p.dialed.WriteBytes(short, to, reactor.SendOptions{}))
	to.Addr += 5
	require.NoError(t, p.dialed.WriteBytes(long, to, reactor.SendOptions{HasImm: true, Imm: 1}))
	to.Addr += 4000
	require.NoError(t, p.dialed.WriteBytes(longer, to, reactor.SendOptions{}))
	clear(short)
	clear(long)
	clear(longer)
	require.NoError(t, p.dialed.WriteBytes(nil, reactor.Remote{}, reactor.SendOptions{HasImm: true, Imm: 2}))
	require.NoError(t, p.dialed.WriteImm(reactor.Piece{}, reactor.Remote{}, 3, reactor.SendOptions{}))
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
		note(p.dialed.WriteV(pieces, to, reactor.SendOptions{Quiet: true}))
		note(p.dialed.WriteBytes(short, to, reactor.SendOptions{Quiet: true}))
		note(p.dialed.SendV(pieces, reactor.SendOptions{}))
		note(p.dialed.ReadV(pieces, to, reactor.SendOptions{}))
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
