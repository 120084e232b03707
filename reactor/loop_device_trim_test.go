//go:build linux

package reactor_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// residentBytes returns how many bytes of the buffers of l are in physical memory.
// Source: proc_pid_pagemap(5).
func residentBytes(t *testing.T, l *reactor.Loop) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer f.Close()
	page := os.Getpagesize()
	for _, mr := range reactor.Chunks(l) {
		entries := make([]byte, 8*((len(mr.Bytes())+page-1)/page))
		_, err = f.ReadAt(entries, int64(mr.Addr())/int64(page)*8)
		require.NoError(t, err)
		for ; len(entries) > 0; entries = entries[8:] {
			bytes += page * int(binary.NativeEndian.Uint64(entries)>>63)
		}
	}
	return bytes
}

// TestMemoryReturnedAfterClose checks that buffers of closed connections occupy no
// physical memory while other connections stay open.
func TestMemoryReturnedAfterClose(t *testing.T) {
	const conns, stay, messages = 12, 2, 31
	// Each connection has receive buffers of its own, all of which are used.
	cfg := &reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: -1}, MaxInFlight: messages}
	received := 0
	server := &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}
	inWorld(t, &hooks{}, server, cfg, func(t *testing.T, p *worldPair) {
		for range conns - 1 {
			require.NoError(t, p.client.Engine().Dial(p.host.AddrPort(1), nil))
		}
		p.Until(time.Second, func() bool { return p.client.Stats().Opened == conns })
		all := reactor.ConnsOf(p.client)
		for range messages {
			received = 0
			p.do(func() {
				for _, c := range all {
					require.NoError(t, c.Send(make([]byte, 4096), nil))
				}
			})
			p.Until(time.Second, func() bool { return received == conns })
		}
		require.GreaterOrEqual(t, residentBytes(t, p.server), conns*messages*4096)

		closeConns := func(some []*reactor.Conn) {
			p.do(func() {
				for _, c := range some {
					require.NoError(t, c.Close())
				}
			})
			p.For(2*reactor.TrimEvery + time.Second)
		}
		closeConns(all[stay:])
		used := stay * messages * 4096 // number of bytes of the buffers for the next messages
		require.LessOrEqual(t, residentBytes(t, p.server), used+used/4)
		require.Less(t, p.server.Stats().BufferBytes, uint64(conns*messages*4096))

		p.do(func() { require.NoError(t, all[0].Send([]byte("still here"), nil)) })
		closeConns(all[:stay])
		require.Equal(t, conns+1, received)
		require.Zero(t, residentBytes(t, p.server))
		require.Len(t, reactor.Chunks(p.server), 1)
	})
}

// TestLongMemoryReturned checks that the memory of leased buffers and of long messages that
// were not received is returned.
func TestLongMemoryReturned(t *testing.T) {
	const size = 64 << 10
	inWorld(t, &hooks{}, &hooks{}, longConfig(), func(t *testing.T, p *worldPair) {
		p.For(time.Second)
		base := p.client.Stats().BufferBytes
		p.serverProcess.Stop()
		p.do(func() {
			for p.dialed.Send(make([]byte, size), nil) == nil {
			}
			b, err := p.dialed.Lease(size)
			require.NoError(t, err)
			require.NoError(t, b.Release())
		})
		p.For(time.Second)
		require.GreaterOrEqual(t, p.client.Stats().BufferBytes, base+(reactor.LongWindow+1)*size)
		p.do(func() { require.NoError(t, p.dialed.Abort(nil)) })
		p.For(3 * reactor.TrimEvery)
		require.LessOrEqual(t, p.client.Stats().BufferBytes, base)
	})
}

// TestShownMemoryReturned checks that memory that the peer may read is returned while the
// connection is open.
func TestShownMemoryReturned(t *testing.T) {
	completed := 0
	client := &hooks{completion: func(*reactor.Conn, reactor.Op, error) { completed++ }}
	inWorld(t, client, &hooks{}, longConfig(), func(t *testing.T, p *worldPair) {
		p.For(time.Second)
		base := p.client.Stats().BufferBytes
		p.do(func() {
			b, err := p.dialed.Lease(8192)
			require.NoError(t, err)
			require.NoError(t, b.SetLen(8192))
			require.NoError(t, p.dialed.SendBuffer(b, &reactor.OpOptions{Notify: true}))
		})
		p.For(time.Second)
		require.Equal(t, 1, completed)
		require.Equal(t, base+8192, p.client.Stats().BufferBytes)
		require.EqualValues(t, 8192, p.client.Stats().LargeBufferBytes)
		p.For(3 * reactor.TrimEvery)
		require.Equal(t, base, p.client.Stats().BufferBytes)
		require.Zero(t, p.client.Stats().LargeBufferBytes)
	})
}

// TestUnusedSharedRecvIsClosed checks that the shared receive queue is closed when no
// connection uses it, that its memory is returned, and that it opens again.
func TestUnusedSharedRecvIsClosed(t *testing.T) {
	server := &hooks{message: echo(t)}
	inWorld(t, &hooks{}, server, &reactor.Config{Memory: reactor.Memory{SharedRecvBuffers: 16}}, func(t *testing.T, p *worldPair) {
		for range 2 {
			c := p.Dial(p.client.Engine(), p.host.AddrPort(1), nil)
			for range 16 {
				require.Len(t, c.Exchange(make([]byte, 1000)), 1000)
			}
			for _, c := range reactor.ConnsOf(p.client) {
				p.do(func() { require.NoError(t, c.Close()) })
			}
			require.Equal(t, 16, reactor.SharedRecvSize(p.server))
			p.For(2*reactor.TrimEvery + time.Second)
			require.Zero(t, reactor.SharedRecvSize(p.server))
			require.Len(t, reactor.Chunks(p.server), 1)
			require.Zero(t, residentBytes(t, p.server))
		}
	})
}

// TestUnusedCQIsClosed checks that a loop closes a CQ when loopDevice.trim() finds it
// unused for the second time.
func TestUnusedCQIsClosed(t *testing.T) {
	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
		cfg := quiet(&reactor.Config{MaxInFlight: 7, Memory: reactor.Memory{SharedRecvBuffers: -1}})
		h := w.Host("host")
		p, err := newStrictProvider(h.Process("server").Open(nil),
			func(a *verbs.DeviceAttr) { a.MaxCQE = connsPerCQ * (2*cfg.MaxInFlight + 1) }, nil)
		require.NoError(t, err)
		server, err := reactor.New(p, &hooks{}, cfg)
		require.NoError(t, err)
		t.Cleanup(func() { shutdown(t, server) })
		require.NoError(t, server.Start())
		_, err = server.Listen(h.AddrPort(1), nil)
		require.NoError(t, err)
		client := h.Process("client").Start(&hooks{}, cfg)
		for range 2 {
			var conns []*reactortest.Conn
			for range 2*connsPerCQ + 1 {
				conns = append(conns, w.Dial(client, h.AddrPort(1), nil))
			}
			require.Equal(t, 3, p.device.openCQs())
			closeConns := func(some []*reactortest.Conn) {
				for _, c := range some {
					w.On(c.Loop(), func() { require.NoError(t, c.Close()) })
				}
				w.For(reactor.TrimEvery + time.Second)
			}
			closeConns(conns[2*connsPerCQ:])
			require.Equal(t, 3, p.device.openCQs(), "an unused CQ stays open until the second trim")
			w.For(reactor.TrimEvery + time.Second)
			require.Equal(t, 2, p.device.openCQs())
			closeConns(conns[:2*connsPerCQ])
			w.For(reactor.TrimEvery + time.Second)
			require.Equal(t, 1, p.device.openCQs(), "the first CQ is never closed")
		}
	})
}

// TestEndsCauseACollection checks that the engine makes the garbage collector run once after
// the end of many connections.
func TestEndsCauseACollection(t *testing.T) {
	inWorld(t, &hooks{}, &hooks{}, nil, func(t *testing.T, p *worldPair) {
		collections := 0
		reactor.SetCollect(p.server.Engine(), func() { collections++ })
		reactor.EndConns(p.server.Engine(), reactor.HeapReturnConns-1)
		p.do(func() { require.NoError(t, p.dialed.Close()) })
		p.For(10 * time.Minute)
		require.Equal(t, 1, collections)
	})
}

// TestGoMemoryReturnedAfterClose checks that a garbage collection frees the memory of
// connections that have ended.
func TestGoMemoryReturnedAfterClose(t *testing.T) {
	const conns = 100
	p := connect(t, &hooks{}, &hooks{}, nil)
	ln, err := p.server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	for range conns {
		require.NoError(t, p.client.Engine().Dial(ln.Addr(), nil))
	}
	p.drive(t, func() bool { return p.server.Stats().Opened == conns+1 })
	peak := live()
	for _, c := range reactor.ConnsOf(p.client) {
		require.NoError(t, c.Close())
	}
	p.drive(t, func() bool { return p.client.Conns()+p.server.Conns() == 0 })
	p.dialed, p.accepted = nil, nil
	now := live()
	t.Logf("%d KiB before, %d with %d connections, %d afterwards", before>>10, peak>>10, conns, now>>10)
	require.Less(t, now, before+(peak-before)/2)
}
