package reactor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Timers are set, set again and stopped at random. They fire in the order of their times,
// and none fires early.
func TestTimersAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var ts timers
		var fired []int
		all := make([]timer, 20)
		want := make(map[int]time.Duration)
		for i := range all {
			all[i].fire = func() { fired = append(fired, i) }
		}
		for now := time.Duration(0); now < 300; now++ {
			i := rng.IntN(len(all))
			if rng.IntN(4) == 0 {
				_, set := want[i]
				require.Equal(t, set, ts.stop(&all[i]), "seed %d", seed)
				delete(want, i)
			} else {
				want[i] = now + time.Duration(rng.IntN(50))
				ts.set(&all[i], want[i])
			}
			var due []time.Duration
			for _, when := range want {
				if when <= now {
					due = append(due, when)
				}
			}
			slices.Sort(due)
			fired = fired[:0]
			require.Equal(t, len(due), ts.expire(now), "seed %d", seed)
			for k, i := range fired {
				require.Equal(t, due[k], want[i], "seed %d", seed)
				delete(want, i)
			}
			when, ok := ts.next()
			require.Equal(t, len(want) > 0, ok)
			require.True(t, !ok || when > now)
		}
	}
}

// A timer that sets itself again without a delay fires in the next call of expire.
func TestTimerSetWhileFiring(t *testing.T) {
	var ts timers
	var a, b timer
	n := 0
	a.fire = func() { n++; ts.set(&a, 5) }
	b.fire = func() { n += 10 }
	ts.set(&a, 5)
	require.Equal(t, 1, ts.expire(5))
	require.Equal(t, 1, n)

	a.fire = func() { ts.stop(&b) }
	ts.set(&b, 6)
	require.Equal(t, 1, ts.expire(6), "b was stopped by a")
	require.Equal(t, 1, n)
}

func TestTimersDoNotAllocate(t *testing.T) {
	var ts timers
	tm := timer{fire: func() {}}
	ts.set(&tm, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ts.set(&tm, 2)
		ts.stop(&tm)
		ts.set(&tm, 1)
		ts.expire(1)
	}))
}
