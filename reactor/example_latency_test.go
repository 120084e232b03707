package reactor_test

import (
	"fmt"
	"net/netip"
	"runtime/metrics"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example looks for what delays the messages of a server: its own turns and callbacks, or
// the Go runtime, which stops the program for the garbage collection and lets goroutines wait for
// a thread.
func ExampleEngine_Latency() {
	count := &counter{total: make(chan int, 1)}
	server, end := runWith(count, &reactor.Config{LatencyEvery: 1})
	listener, err := server.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	check(err)
	client, endClient := run(&sender{left: 1000})
	before := server.Latency()
	check(client.Dial(listener.Addr(), nil))
	<-count.total
	endClient()
	end()

	measured := server.Latency().Sub(before)
	fmt.Println("messages were measured:", measured.Arrival.Count() > 0)
	for _, p99 := range []struct {
		what string
		took time.Duration
	}{
		{"from arrival to OnMessage", measured.Arrival.Quantile(0.99)},
		{"callbacks", measured.Callback.Quantile(0.99)},
		{"turns", measured.Turn.Quantile(0.99)},
		{"garbage collection", runtimeP99("/sched/pauses/total/gc:seconds")},
		{"waiting for a thread", runtimeP99("/sched/latencies:seconds")},
	} {
		fmt.Printf("%s: less than a minute: %t\n", p99.what, p99.took < time.Minute)
	}
	// Output:
	// messages were measured: true
	// from arrival to OnMessage: less than a minute: true
	// callbacks: less than a minute: true
	// turns: less than a minute: true
	// garbage collection: less than a minute: true
	// waiting for a thread: less than a minute: true
}

// runtimeP99 returns the beginning of the bucket that has the 99th percentile, of a histogram of
// the Go runtime since the start of the program. The last bucket has no end.
func runtimeP99(name string) time.Duration {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	total, below := uint64(0), uint64(0)
	for _, n := range h.Counts {
		total += n
	}
	for i, n := range h.Counts {
		if below += n; n > 0 && float64(below) >= 0.99*float64(total) {
			return time.Duration(h.Buckets[i] * float64(time.Second))
		}
	}
	return 0
}
