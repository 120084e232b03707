package main

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/bench/pin"
)

const (
	// Number of round trips in a batch. They are timed together, because reading the
	// clock takes about as long as one round trip.
	lineBatch = 64
	// Number of batches in one measurement, which takes less than a millisecond.
	lineBatches = 33
)

// cacheLineTime returns the median time in nanoseconds of a round trip of a cache line
// between the processors of the client and the server. It returns 0 if there is only one
// processor.
func cacheLineTime() float64 {
	client, server := processors()
	if client < 0 {
		return 0
	}
	var request, response struct {
		_     [cellAlign]byte
		count atomic.Int64
		_     [cellAlign]byte
	}
	const messages = lineBatch * lineBatches
	onProcessor(server, func() {
		for n := int64(1); n <= messages; n++ {
			for request.count.Load() != n {
			}
			response.count.Store(n)
		}
	})
	times := make(chan float64)
	onProcessor(client, func() {
		var all []float64
		n := int64(0)
		for range lineBatches {
			start := time.Now()
			for range lineBatch {
				n++
				request.count.Store(n)
				for response.count.Load() != n {
				}
			}
			all = append(all, float64(time.Since(start))/lineBatch)
		}
		slices.Sort(all)
		times <- all[len(all)/2]
	})
	return <-times
}

// onProcessor runs f on a new thread that is pinned to a processor. The thread ends with
// f.
func onProcessor(cpu int, f func()) {
	go func() {
		runtime.LockOSThread()
		pin.Thread(cpu)
		f()
	}()
}
