package reactor

import (
	"iter"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts durations. It has 16 buckets for each power of two from 64 ns to 2^38 ns,
// which is 275 s, and 16 for the durations below 64 ns. So the bounds of a bucket are at most
// a sixteenth of the duration apart, and below 64 ns they are 4 ns apart. The last bucket also
// counts all longer durations.
//
// A Histogram is a value of 4 KiB, which belongs to the caller. The zero value is empty.
type Histogram struct {
	buckets  [numBuckets]uint64
	sum, max time.Duration
}

const (
	bucketBits    = 4 // logarithm of the number of buckets for a power of two
	shortBits     = 6 // durations of so many bits are in the first buckets
	longestBits   = 38
	perPowerOfTwo = 1 << bucketBits
	numBuckets    = perPowerOfTwo * (longestBits - shortBits + 1)
)

// bucketOf returns the index of the bucket for a duration of zero or more.
func bucketOf(d time.Duration) int {
	// The highest bucketBits+1 bits of d give the index within its power of two.
	shift := max(bits.Len64(uint64(d)), shortBits+1) - bucketBits - 1
	index := perPowerOfTwo*(shift-shortBits+bucketBits) + int(d>>shift)
	return min(index, numBuckets-1)
}

// bucketEnd returns the shortest duration that is too long for the bucket with index i.
func bucketEnd(i int) time.Duration {
	if i == numBuckets-1 {
		return math.MaxInt64
	}
	power := max(0, i/perPowerOfTwo-1)
	return time.Duration(i-perPowerOfTwo*power+1) << (power + shortBits - bucketBits)
}

// Count returns the number of durations.
func (h Histogram) Count() (n uint64) {
	for _, count := range h.buckets {
		n += count
	}
	return n
}

// Sum returns the sum of the durations. If a loop has been adding meanwhile, the sum may lack
// the last ones.
func (h Histogram) Sum() time.Duration { return h.sum }

// Max returns the longest duration, to the nanosecond, or 0 if there is none.
func (h Histogram) Max() time.Duration { return h.max }

// Quantile returns a duration that the part q of the durations do not exceed: with 0.5 the
// median, with 0.99 the 99th percentile. The result is at least the exact quantile. It is at
// most a sixteenth longer, or 4 ns if the exact one is less than 64 ns, and never longer than
// Max. If q is not from 0 to 1, the nearest of these counts. Without durations the result is 0.
func (h Histogram) Quantile(q float64) time.Duration {
	rank, below := uint64(0), uint64(0)
	if q > 0 {
		rank = uint64(math.Ceil(min(q, 1) * float64(h.Count())))
	}
	for i, n := range h.buckets {
		if below += n; n > 0 && below >= rank {
			return min(bucketEnd(i), h.max)
		}
	}
	return 0
}

// Buckets returns the buckets that are not empty, from short to long durations: the shortest
// duration that is too long for the bucket, and how many durations are in the bucket. The last
// bucket has no such duration; for it Buckets returns the largest time.Duration.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range h.buckets {
			if n > 0 && !yield(bucketEnd(i), n) {
				return
			}
		}
	}
}

// Add adds the durations of o.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Sub returns what was counted since an earlier value of the same histogram. Max stays the
// longest duration of all.
func (h Histogram) Sub(earlier Histogram) Histogram {
	for i, n := range earlier.buckets {
		h.buckets[i] -= n
	}
	h.sum -= earlier.sum
	return h
}

// A sharedHistogram is a Histogram to which one goroutine adds, while others read it.
type sharedHistogram struct {
	buckets  [numBuckets]atomic.Uint64
	sum, max atomic.Int64
}

// add adds a duration. A negative one counts as zero.
func (h *sharedHistogram) add(d time.Duration) {
	d = max(0, d)
	// Only this goroutine writes, so nothing is lost between Load and Store.
	bucket := &h.buckets[bucketOf(d)]
	bucket.Store(bucket.Load() + 1)
	h.sum.Store(h.sum.Load() + int64(d))
	if int64(d) > h.max.Load() {
		h.max.Store(int64(d))
	}
}

// read returns the present durations. Any goroutine may call it.
func (h *sharedHistogram) read() (now Histogram) {
	for i := range h.buckets {
		now.buckets[i] = h.buckets[i].Load()
	}
	now.sum, now.max = time.Duration(h.sum.Load()), time.Duration(h.max.Load())
	return now
}
