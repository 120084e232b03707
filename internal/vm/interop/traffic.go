package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// The client of ib_send_lat sends one message at a time. The server answers it with a
// message of the same size.

func newLatencyServer(s *endpoint) reactor.Handler {
	return newPerftestServer(s, &latencyServer{payload: make([]byte, s.opts.size)})
}

func newLatencyClient(s *endpoint) reactor.Handler {
	return newPerftestClient(s, &latencyClient{payload: make([]byte, s.opts.size)})
}

// noTraffic is a traffic that does nothing. Other types embed it.
type noTraffic struct{}

func (noTraffic) onStart(*perftest)     {}
func (noTraffic) onMessage(*perftest)   {}
func (noTraffic) onWritable(*perftest)  {}
func (noTraffic) onDelivered(*perftest) {}

type latencyServer struct {
	noTraffic
	payload []byte
}

func (l *latencyServer) onMessage(p *perftest) { p.check(p.data.Send(l.payload, nil)) }

type latencyClient struct {
	noTraffic
	payload []byte
	start   time.Time
	times   []time.Duration // times of the round trips
}

func (l *latencyClient) onStart(p *perftest) {
	l.start = time.Now()
	p.check(p.data.Send(l.payload, nil))
}

func (l *latencyClient) onMessage(p *perftest) {
	l.times = append(l.times, time.Since(l.start))
	if len(l.times) < p.opts.count {
		l.onStart(p)
		return
	}
	slices.Sort(l.times)
	typical := l.times[len(l.times)/2] / 2
	fmt.Fprintf(p.out, "%d messages of %d bytes, typical %v one way\n", len(l.times), len(l.payload), typical)
	p.sendStep()
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

func (b *bandwidthServer) onMessage(p *perftest) {
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

func (b *bandwidthClient) onStart(p *perftest) {
	b.start = time.Now()
	b.onWritable(p)
}

func (b *bandwidthClient) onWritable(p *perftest) {
	for b.posted < p.opts.count {
		last := b.posted == p.opts.count-1
		err := p.data.Send(b.payload, &reactor.OpOptions{Notify: last})
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

func (b *bandwidthClient) onDelivered(p *perftest) {
	took := time.Since(b.start)
	rate := float64(b.posted*len(b.payload)) / took.Seconds() / (1 << 20)
	fmt.Fprintf(p.out, "%d messages of %d bytes, %.2f MiB/s\n", b.posted, len(b.payload), rate)
	p.sendStep()
}
