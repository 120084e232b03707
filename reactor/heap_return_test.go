package reactor

import (
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHeapReturn checks in virtual time when the garbage collector is made to run.
func TestHeapReturn(t *testing.T) {
	const many = 2 * minHeapReturn / connHeap
	for name, test := range map[string]struct {
		ended     int           // connections that end at once
		each      time.Duration // time after which as many end again; 0 means never
		collects  bool          // the garbage collector runs by itself
		objects   uint64        // size of the heap
		collected int           // how often it is made to run in an hour
	}{
		"many ends":              {ended: many, collected: 1},
		"few ends":               {ended: 10},
		"few ends, many times":   {ended: many / 100, each: 10 * time.Second, collected: 6},
		"the collector runs":     {ended: many, collects: true},
		"a heap that is larger":  {ended: many, objects: 5 * many * connHeap},
		"ends again and again":   {ended: many, each: heapReturnEvery / 2},
		"ends now and then":      {ended: many, each: 10 * time.Minute, collected: 6},
		"a heap that is not":     {ended: many, objects: 3 * many * connHeap, collected: 1},
		"no ends":                {},
		"a collection each time": {ended: many, each: heapReturnEvery / 2, collects: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cycles uint64
				var collected atomic.Int64
				r := &heapReturn{
					collect: func() { cycles++; collected.Add(1) },
					heap: func() (uint64, uint64) {
						if test.collects {
							cycles++
						}
						return cycles, test.objects
					},
				}
				for begin := time.Now(); time.Since(begin) < time.Hour; time.Sleep(max(test.each, heapReturnEvery/2)) {
					for range test.ended {
						r.connEnded()
					}
					if test.each == 0 {
						test.ended = 0
					}
				}
				synctest.Wait()
				require.EqualValues(t, test.collected, collected.Load())
				time.Sleep(3 * heapReturnEvery)
				synctest.Wait()
				require.False(t, r.armed.Load(), "no check waits when nothing ends")
			})
		})
	}
}

// TestHeapReturnTime checks how soon after the ends of many connections the garbage
// collector runs.
func TestHeapReturnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at time.Time
		r := &heapReturn{collect: func() { at = time.Now() }, heap: func() (uint64, uint64) { return 0, 0 }}
		for range 6000 {
			r.connEnded()
			time.Sleep(time.Millisecond)
		}
		end := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.False(t, at.IsZero())
		require.LessOrEqual(t, at.Sub(end), 2*heapReturnEvery)
	})
}

// TestReadHeap checks that a collection is seen.
func TestReadHeap(t *testing.T) {
	before, objects := readHeap()
	require.NotZero(t, objects)
	debug.FreeOSMemory()
	after, _ := readHeap()
	require.Greater(t, after, before)
}
