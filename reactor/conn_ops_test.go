package reactor_test

import (
	"encoding/binary"
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
