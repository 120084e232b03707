package reactor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// What a loop costs beyond its device. All of it runs on one goroutine but
// BenchmarkPost.

// BenchmarkEcho is the work of both sides for one round trip.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{64, 2048} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			back := 0
			p := connect(b, &hooks{message: func(*reactor.Conn, reactor.Message) { back++ }},
				&hooks{message: func(c *reactor.Conn, msg reactor.Message) { _ = c.Send(msg.Data()) }}, nil)
			msg := make([]byte, size)
			b.ReportAllocs()
			for b.Loop() {
				_ = p.dialed.Send(msg)
				for want := back + 1; back < want; {
					_, _ = p.client.RunOnce(0)
					_, _ = p.server.RunOnce(0)
				}
			}
		})
	}
}

// BenchmarkStream is one message of many that leave with one doorbell: Send, the
// doorbell's share, and dispatch to OnMessage.
func BenchmarkStream(b *testing.B) {
	got := 0
	p := connect(b, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { got++ }}, nil)
	msg := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		for p.dialed.Send(msg) != nil {
			_, _ = p.client.RunOnce(0)
			_, _ = p.server.RunOnce(0)
		}
	}
}

// BenchmarkEmptyTurn is what a spin costs.
func BenchmarkEmptyTurn(b *testing.B) {
	p := connect(b, &hooks{}, &hooks{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.client.RunOnce(0)
	}
}

// BenchmarkTimer is one timer among a hundred, set again before it fires.
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

// BenchmarkPost is a function posted from another goroutine to a loop that spins.
func BenchmarkPost(b *testing.B) {
	e := start(b, &hooks{}, &reactor.Config{Idle: reactor.IdleBusy})
	l := e.Loop(0)
	done := make(chan struct{}, 1)
	last := func() { done <- struct{}{} }
	nothing := func() {}
	b.ReportAllocs()
	for b.Loop() {
		for l.Post(nothing) != nil { // the mailbox is full
		}
	}
	for l.Post(last) != nil {
	}
	receive(b, done)
}
