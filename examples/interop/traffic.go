package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// ib_send_lat sends one message at a time in each direction.

func newLatencyServer(s *endpoint) reactor.Handler {
	return newPerftestServer(s, &latencyServer{payload: make([]byte, s.opts.size)})
}

func newLatencyClient(s *endpoint) reactor.Handler {
	return newPerftestClient(s, &latencyClient{payload: make([]byte, s.opts.size)})
}

// noTraffic implements traffic with empty methods. A type that embeds noTraffic defines
// only the methods that it needs.
type noTraffic struct{}

func (noTraffic) begin(*perftest)   {}
func (noTraffic) message(*perftest) {}
func (noTraffic) more(*perftest)    {}
func (noTraffic) sent(*perftest)    {}

type latencyServer struct {
	noTraffic
	payload []byte
}

func (l *latencyServer) message(p *perftest) { p.check(p.data.Send(l.payload)) }

type latencyClient struct {
	noTraffic
	payload []byte
	start   time.Time
	times   []time.Duration // Times of the round trips.
}

func (l *latencyClient) begin(p *perftest) {
	l.start = time.Now()
	p.check(p.data.Send(l.payload))
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

// ib_send_bw sends messages in one direction, with a full send queue.

func newBandwidthServer(s *endpoint) reactor.Handler { return newPerftestServer(s, &bandwidthServer{}) }

func newBandwidthClient(s *endpoint) reactor.Handler {
	return newPerftestClient(s, &bandwidthClient{payload: make([]byte, s.opts.size)})
}

type bandwidthServer struct {
	noTraffic
	got int
}

func (b *bandwidthServer) message(p *perftest) {
	if b.got++; b.got == p.opts.count {
		fmt.Fprintf(p.out, "%d messages of %d bytes came\n", b.got, p.opts.size)
	}
}

type bandwidthClient struct {
	noTraffic
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
		err := p.data.SendWith(b.payload, reactor.SendOptions{Notify: last})
		if errors.Is(err, reactor.ErrWouldBlock) {
			return
		}
		if err != nil {
			p.stop(err)
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
