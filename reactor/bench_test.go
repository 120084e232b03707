package reactor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// These benchmarks measure a loop together with its device. All except BenchmarkPost run
// on one goroutine.

// BenchmarkEcho measures both sides' work for one round trip.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{64, 2048} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkEcho(b, size, nil) })
	}
}

// BenchmarkLatency is BenchmarkEcho with 64 bytes, while some of the turns or all are measured.
func BenchmarkLatency(b *testing.B) {
	for _, every := range []int{64, 1} {
		b.Run(fmt.Sprint(every), func(b *testing.B) { benchmarkEcho(b, 64, &reactor.Config{LatencyEvery: every}) })
	}
}

func benchmarkEcho(b *testing.B, size int, cfg *reactor.Config) {
	echoes := 0
	p := connect(b, &hooks{message: func(*reactor.Conn, reactor.Message) { echoes++ }},
		&hooks{message: func(c *reactor.Conn, msg reactor.Message) { _ = c.Send(msg.Data(), nil) }}, cfg)
	msg := make([]byte, size)
	b.ReportAllocs()
	for b.Loop() {
		_ = p.dialed.Send(msg, nil)
		for want := echoes + 1; echoes < want; {
			_, _ = p.client.RunOnce(0)
			_, _ = p.server.RunOnce(0)
		}
	}
}

// BenchmarkStream measures the cost of one message in a stream. Many messages share a
// doorbell.
func BenchmarkStream(b *testing.B) {
	got := 0
	p := connect(b, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { got++ }}, nil)
	msg := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		for p.dialed.Send(msg, nil) != nil {
			_, _ = p.client.RunOnce(0)
			_, _ = p.server.RunOnce(0)
		}
	}
}

// BenchmarkEmptyTurn measures a turn of the loop without work.
func BenchmarkEmptyTurn(b *testing.B) {
	p := connect(b, &hooks{}, &hooks{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.client.RunOnce(0)
	}
}

// BenchmarkTimer measures Timer.Reset of a set timer, while a hundred timers are set.
func BenchmarkTimer(b *testing.B) {
	l := newLoop(b, &hooks{}, nil)
	for i := range 99 {
		l.After(time.Hour+time.Duration(i)*time.Minute, func() {})
	}
	t := l.After(time.Hour, func() {})
	b.ReportAllocs()
	for b.Loop() {
		t.Reset(2 * time.Hour)
	}
}

// BenchmarkPost measures the time per function that another goroutine posts to a loop.
// The loop never sleeps.
func BenchmarkPost(b *testing.B) {
	e := start(b, &hooks{}, &reactor.Config{Idle: reactor.IdleBusy})
	l := e.Loop(0)
	done := make(chan struct{}, 1)
	last := func() { done <- struct{}{} }
	nothing := func() {}
	b.ReportAllocs()
	for b.Loop() {
		for l.Post(nothing) != nil { // Post fails while the mailbox is full.
		}
	}
	for l.Post(last) != nil {
	}
	receive(b, done)
}

// BenchmarkConnPost is BenchmarkPost for the functions of a connection.
func BenchmarkConnPost(b *testing.B) {
	opened := make(chan *reactor.Conn, 1)
	e := start(b, &hooks{open: func(c *reactor.Conn) { opened <- c }}, &reactor.Config{Idle: reactor.IdleBusy})
	require.NoError(b, e.Dial(listen(b, start(b, &hooks{}, nil)), nil))
	c := receive(b, opened)
	done := make(chan struct{}, 1)
	nothing := func(error) {}
	b.ReportAllocs()
	for b.Loop() {
		for c.Post(nothing) != nil { // Post fails while the mailbox is full.
		}
	}
	for c.Post(func(error) { done <- struct{}{} }) != nil {
	}
	receive(b, done)
}
