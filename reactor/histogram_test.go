package reactor

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBucketBounds checks that the buckets have no gaps and do not overlap, and the width that
// the comment of Histogram promises.
func TestBucketBounds(t *testing.T) {
	begin := time.Duration(0)
	for i := range numBuckets - 1 {
		end := bucketEnd(i)
		require.Equal(t, i, bucketOf(begin), "%d", begin)
		require.Equal(t, i, bucketOf(end-1), "%d", end-1)
		require.Equal(t, i+1, bucketOf(end), "%d", end)
		require.LessOrEqual(t, end-begin, max(begin/16, 4))
		begin = end
	}
	require.Equal(t, numBuckets-1, bucketOf(1<<38-1))
	require.Equal(t, numBuckets-1, bucketOf(1<<38))
	require.Equal(t, numBuckets-1, bucketOf(math.MaxInt64))
	require.Equal(t, time.Duration(math.MaxInt64), bucketEnd(numBuckets-1))
	require.EqualValues(t, 64, bucketEnd(perPowerOfTwo-1))
}

// sample returns n durations from nanoseconds to minutes, in order, and a histogram of them.
func sample(n int, seed uint64) (all []time.Duration, h Histogram) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var shared sharedHistogram
	for range n {
		d := time.Duration(math.Exp2(37.9 * rng.Float64()))
		all = append(all, d)
		shared.add(d)
	}
	slices.Sort(all)
	return all, shared.read()
}

func TestQuantile(t *testing.T) {
	for seed := range uint64(20) {
		const n = 5000
		all, h := sample(n, seed)
		for _, q := range []float64{0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.99999, 1} {
			exact := all[max(0, int(math.Ceil(q*n))-1)]
			got := h.Quantile(q)
			require.GreaterOrEqual(t, got, exact, "quantile %v", q)
			require.LessOrEqual(t, got-exact, max(exact/16, 4), "quantile %v of %d", q, exact)
		}
		require.Equal(t, all[n-1], h.Quantile(1))
		require.Equal(t, all[n-1], h.Max())
		require.EqualValues(t, n, h.Count())
		sum := time.Duration(0)
		for _, d := range all {
			sum += d
		}
		require.Equal(t, sum, h.Sum())
	}
}

func TestQuantileOutOfRange(t *testing.T) {
	var h sharedHistogram
	empty := h.read()
	require.Zero(t, empty.Quantile(0.5))
	require.Zero(t, empty.Max())
	h.add(time.Microsecond)
	h.add(time.Hour)
	h.add(-1)
	now := h.read()
	require.EqualValues(t, 4, now.Quantile(-1))
	require.Equal(t, time.Hour, now.Quantile(2))
	require.EqualValues(t, 4, now.Quantile(math.NaN()))
	require.Equal(t, time.Hour, now.Max(), "longer than all bounds")
	require.Equal(t, time.Hour+time.Microsecond, now.Sum())
}

// TestHistogramArithmetic checks that the sum of two histograms is that of all durations, and
// that Sub leaves what came later.
func TestHistogramArithmetic(t *testing.T) {
	_, a := sample(1000, 1)
	_, b := sample(500, 2)
	sum := a
	sum.Add(&b)
	require.EqualValues(t, 1500, sum.Count())
	require.Equal(t, a.Sum()+b.Sum(), sum.Sum())
	require.Equal(t, max(a.Max(), b.Max()), sum.Max())
	later := sum.Sub(a)
	require.Equal(t, b.buckets, later.buckets)
	require.Equal(t, b.Sum(), later.Sum())
	require.Equal(t, sum.Max(), later.Max())
	require.EqualValues(t, 1500, sum.Count(), "Sub does not change its receiver")
	later = a.Sub(a)
	require.Zero(t, later.Quantile(0.5))
	require.Zero(t, later.Count())
}

// TestBuckets checks that Buckets has every duration below the bound of its bucket.
func TestBuckets(t *testing.T) {
	all, h := sample(2000, 3)
	below, last := 0, time.Duration(0)
	for end, n := range h.Buckets() {
		require.Positive(t, n)
		require.Greater(t, end, last)
		below, last = below+int(n), end
		at, _ := slices.BinarySearch(all, end)
		require.Equal(t, at, below)
	}
	require.Equal(t, len(all), below)
	for range h.Buckets() {
		break
	}
}

// TestHistogramIsReadWhileItGrows checks that a reader never finds fewer durations than before,
// and with the race detector that it may read.
func TestHistogramIsReadWhileItGrows(t *testing.T) {
	var h sharedHistogram
	const n = 100_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			h.add(time.Duration(i))
		}
	}()
	for last := uint64(0); last < n; {
		now := h.read()
		require.GreaterOrEqual(t, now.Count(), last)
		last = now.Count()
	}
	<-done
	require.Zero(t, testing.AllocsPerRun(100, func() { h.add(time.Second) }))
}

// BenchmarkHistogram measures what a duration costs the loop.
func BenchmarkHistogram(b *testing.B) {
	var h sharedHistogram
	d := time.Duration(0)
	for b.Loop() {
		h.add(d & (1<<20 - 1))
		d += 977
	}
}
