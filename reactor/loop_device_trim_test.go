//go:build linux

package reactor_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
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
	const conns, messages = 200, 63
	var dialed []*reactor.Conn
	received := 0
	// Each connection has receive buffers of its own, all of which are used.
	server := newLoop(t, &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}, &reactor.Config{SharedRecvBuffers: -1})
	client := newLoop(t, &hooks{open: func(c *reactor.Conn) { dialed = append(dialed, c) }}, nil)
	ln, err := server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	for range conns {
		require.NoError(t, client.Dial(ln.Addr(), nil))
	}
	drive(t, func() bool { return len(dialed) == conns }, client, server)
	for range messages {
		received = 0
		for _, c := range dialed {
			require.NoError(t, c.Send(make([]byte, 4096)))
		}
		drive(t, func() bool { return received == conns }, client, server)
	}
	require.GreaterOrEqual(t, residentBytes(t, server), conns*messages*4096)

	const stay = 10
	for i, c := range dialed {
		if i%(conns/stay) > 0 {
			require.NoError(t, c.Close())
		}
	}
	drive(t, func() bool { return server.Conns() == stay && client.Conns() == stay }, client, server)
	passTrimInterval(t, server)
	passTrimInterval(t, server)
	// number of bytes of the buffers for the next messages
	used := stay * messages * 4096
	require.LessOrEqual(t, residentBytes(t, server), used+used/4)
	require.Less(t, server.Stats().BufferBytes, uint64(conns*messages*4096))

	for i, c := range dialed {
		if i%(conns/stay) == 0 {
			require.NoError(t, c.Send([]byte("still here")))
			require.NoError(t, c.Close())
		}
	}
	drive(t, func() bool { return server.Conns()+client.Conns() == 0 }, client, server)
	require.Equal(t, conns+stay, received)
	passTrimInterval(t, server)
	passTrimInterval(t, server)
	require.Zero(t, residentBytes(t, server))
	require.Len(t, reactor.Chunks(server), 1)
}

// TestGoMemoryReturnedAfterClose checks that the engine makes the garbage collector run
// once after the end of many connections, and that a collection then frees their memory.
func TestGoMemoryReturnedAfterClose(t *testing.T) {
	const conns = 600
	open, closed, collections := 0, 0, 0
	p := connect(t, &hooks{close: func(*reactor.Conn, error) { closed++ }}, &hooks{open: func(*reactor.Conn) { open++ }}, nil)
	// Other engines and the runtime may start collections, too. They do not count here.
	reactor.HoldHeapChecks(p.server.Engine(), func() { collections++ })
	ln, err := p.server.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	for i := 1; i < conns; i++ {
		require.NoError(t, p.client.Dial(ln.Addr(), nil))
		p.drive(t, func() bool { return open == i+1 })
	}
	peak := live()
	for _, c := range reactor.ConnsOf(p.client) {
		require.NoError(t, c.Close())
	}
	p.drive(t, func() bool { return closed == conns && p.client.Conns()+p.server.Conns() == 0 })
	p.dialed, p.accepted = nil, nil
	require.Zero(t, collections)
	for range 2 {
		reactor.CheckHeap(p.server.Engine())
		require.Equal(t, 1, collections)
	}
	now := live()
	t.Logf("%d KiB before, %d with %d connections, %d afterwards", before>>10, peak>>10, conns, now>>10)
	require.Less(t, now, before+(peak-before)/4)
}
