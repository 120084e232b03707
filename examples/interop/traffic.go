package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// What ib_send_lat does: one message at a time, there and back.

func newLatencyServer(s *side) reactor.Handler {
	return newPerftestServer(s, &latencyServer{payload: make([]byte, s.opts.size)})
}

func newLatencyClient(s *side) reactor.Handler {
	return newPerftestClient(s, &latencyClient{payload: make([]byte, s.opts.size)})
}

// quiet is traffic that has nothing to do on some occasion.
type quiet struct{}

func (quiet) begin(*perftest)   {}
func (quiet) message(*perftest) {}
func (quiet) more(*perftest)    {}
func (quiet) sent(*perftest)    {}

type latencyServer struct {
	quiet
	payload []byte
}

func (l *latencyServer) message(p *perftest) { p.must(p.data.Send(l.payload)) }

type latencyClient struct {
	quiet
	payload []byte
	start   time.Time
	times   []time.Duration // there and back
}

func (l *latencyClient) begin(p *perftest) {
	l.start = time.Now()
	p.must(p.data.Send(l.payload))
}

func (l *latencyClient) message(p *perftest) {
	l.times = append(l.times, time.Since(l.start))
	if len(l.times) < p.opts.count {
		l.begin(p)
		return
	}
	slices.Sort(l.times)
	typical := l.times[len(l.times)/2] / 2
	fmt.Fprintf(p.out, "%d messages of %d bytes, typical %v one way\n", len(l.times), len(l.payload), typical)
	p.next()
}

// What ib_send_bw does: messages in one direction, as many as fit.

func newBandwidthServer(s *side) reactor.Handler { return newPerftestServer(s, &bandwidthServer{}) }

func newBandwidthClient(s *side) reactor.Handler {
	return newPerftestClient(s, &bandwidthClient{payload: make([]byte, s.opts.size)})
}

type bandwidthServer struct {
	quiet
	got int
}

func (b *bandwidthServer) message(p *perftest) {
	if b.got++; b.got == p.opts.count {
		fmt.Fprintf(p.out, "%d messages of %d bytes came\n", b.got, p.opts.size)
	}
}

type bandwidthClient struct {
	quiet
	payload []byte
	posted  int
	start   time.Time
}

func (b *bandwidthClient) begin(p *perftest) {
	b.start = time.Now()
	b.more(p)
}

func (b *bandwidthClient) more(p *perftest) {
	for b.posted < p.opts.count {
		last := b.posted == p.opts.count-1
		err := p.data.SendMsg(b.payload, reactor.SendOptions{Notify: last})
		if errors.Is(err, reactor.ErrWouldBlock) {
			return
		}
		if err != nil {
			p.end(err)
			return
		}
		b.posted++
	}
}

func (b *bandwidthClient) sent(p *perftest) {
	took := time.Since(b.start)
	rate := float64(b.posted*len(b.payload)) / took.Seconds() / (1 << 20)
	fmt.Fprintf(p.out, "%d messages of %d bytes, %.2f MiB/s\n", b.posted, len(b.payload), rate)
	p.next()
}
