package timerheap

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTimersAgainstAModel checks that timers fire in the order of their times, and none
// too early.
func TestTimersAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var ts Heap
		var fired []int
		all := make([]Timer, 20)
		want := make(map[int]time.Duration)
		for i := range all {
			all[i].Owner = Func(func() { fired = append(fired, i) })
		}
		for now := time.Duration(0); now < 300; now++ {
			i := rng.IntN(len(all))
			if rng.IntN(4) == 0 {
				_, set := want[i]
				require.Equal(t, set, ts.Stop(&all[i]), "seed %d", seed)
				delete(want, i)
			} else {
				want[i] = now + time.Duration(rng.IntN(50))
				ts.Set(&all[i], want[i])
			}
			var due []time.Duration
			for _, when := range want {
				if when <= now {
					due = append(due, when)
				}
			}
			slices.Sort(due)
			fired = fired[:0]
			require.Equal(t, len(due), ts.Expire(now), "seed %d", seed)
			for k, i := range fired {
				require.Equal(t, due[k], want[i], "seed %d", seed)
				delete(want, i)
			}
			when, ok := ts.Next()
			require.Equal(t, len(want) > 0, ok)
			require.True(t, !ok || when > now)
		}
	}
}

// TestTimerSetWhileFiring checks a timer that OnTimer sets to a past time. The timer must
// fire again only in the next call of Expire.
func TestTimerSetWhileFiring(t *testing.T) {
	var ts Heap
	var a, b Timer
	n := 0
	a.Owner = Func(func() { n++; ts.Set(&a, 5) })
	b.Owner = Func(func() { n += 10 })
	ts.Set(&a, 5)
	require.Equal(t, 1, ts.Expire(5))
	require.Equal(t, 1, n)

	a.Owner = Func(func() { ts.Stop(&b) })
	ts.Set(&b, 6)
	require.Equal(t, 1, ts.Expire(6), "b was stopped by a")
	require.Equal(t, 1, n)
}

func TestTimersDoNotAllocate(t *testing.T) {
	var ts Heap
	tm := Timer{Owner: Func(func() {})}
	ts.Set(&tm, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ts.Set(&tm, 2)
		ts.Stop(&tm)
		ts.Set(&tm, 1)
		ts.Expire(1)
	}))
}

// TestMove checks that Move keeps the time of a running timer and does not start a
// stopped one.
func TestMove(t *testing.T) {
	var from, to Heap
	var running, stopped Timer
	from.Set(&running, 7)
	from.Move(&running, &to)
	from.Move(&stopped, &to)
	require.Zero(t, from.Len())
	require.Equal(t, 1, to.Len())
	when, ok := to.Next()
	require.True(t, ok)
	require.EqualValues(t, 7, when)
	require.True(t, to.Stop(&running))
	require.False(t, running.Running())
}
