//go:build linux

package qp

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys of two regions are independent, even if both use the same table entry. So a
// peer that knows one key can not guess another one.
func TestKeysCanNotBeGuessed(t *testing.T) {
	const regions, near = 2000, 1 << 12
	var table mrTable
	last, close, set := uint32(0), 0, 0
	for i := range regions {
		m := &mr{}
		require.NoError(t, table.insert(m))
		if m.key-last < near || last-m.key < near {
			close++
		}
		last = m.key
		set += bits.OnesCount32(m.key)
		if i%2 == 0 {
			table.remove(m) // A later region may use the free table entry.
		}
	}
	// A random key is less than 4096 above or below the previous key with the probability
	// 8192 / 2^32. For 2000 keys, this is expected to happen 0.004 times.
	require.LessOrEqual(t, close, 1)
	require.InDelta(t, 0.5, float64(set)/(32*regions), 0.02, "every bit is random")
}

// After any inserts and removals, find() agrees with a Go map.
func TestKeyTableAgainstAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var table mrTable
	model := map[uint32]*mr{}
	var gone []uint32
	check := func(key uint32) {
		if want, got := model[key], table.find(key); want != got { // require.Same is slow.
			require.FailNow(t, "wrong region", "key %#x: want %v, got %v", key, want, got)
		}
	}
	for range 50_000 {
		if len(model) > 0 && rng.IntN(len(model)+300) < len(model) {
			for key, m := range model {
				table.remove(m)
				delete(model, key)
				gone = append(gone, key)
				break
			}
		} else {
			m := &mr{}
			require.NoError(t, table.insert(m))
			require.NotZero(t, m.key)
			require.Nil(t, model[m.key], "two regions with one key")
			model[m.key] = m
			check(m.key)
		}
		check(0)
		check(rng.Uint32())
		if len(gone) > 0 {
			check(gone[rng.IntN(len(gone))])
		}
	}
	for key := range model {
		check(key)
	}
	require.Equal(t, len(model), table.regions)
}

// After many inserts and removals, the table is still small and a search short.
func TestKeyTableStaysSmall(t *testing.T) {
	const lasting, passing = 100, 100_000
	var table mrTable
	for range lasting {
		require.NoError(t, table.insert(&mr{}))
	}
	longest := 0
	for range passing {
		m := &mr{}
		require.NoError(t, table.insert(m))
		table.remove(m)
		longest = max(longest, table.search(m.key))
	}
	require.LessOrEqual(t, len(*table.slots.Load()), 16*lasting)
	require.Less(t, longest, 100, "slots visited by a search for an absent key")
}

// search returns how many entries are examined to find a key.
func (t *mrTable) search(key uint32) (n int) {
	slots := *t.slots.Load()
	for i := key; slots[i&uint32(len(slots)-1)].Load() != nil; i++ {
		n++
	}
	return n + 1
}

// While one goroutine inserts and removes regions, the table grows, shrinks and reuses
// entries. Searches in other goroutines find every region.
func TestKeyTableIsReadWithoutLocks(t *testing.T) {
	var table mrTable
	var lasting []*mr
	for range 50 {
		m := &mr{}
		require.NoError(t, table.insert(m))
		lasting = append(lasting, m)
	}
	var stop atomic.Bool
	var missed atomic.Int64
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				for _, m := range lasting {
					if table.find(m.key) != m {
						missed.Add(1)
					}
				}
			}
		})
	}
	for range 200 {
		var passing []*mr
		for range 100 {
			m := &mr{}
			require.NoError(t, table.insert(m))
			passing = append(passing, m)
		}
		for _, m := range passing {
			table.remove(m)
		}
	}
	stop.Store(true)
	readers.Wait()
	require.Zero(t, missed.Load())
}

// BenchmarkFindKey measures a search in a small and a large table.
func BenchmarkFindKey(b *testing.B) {
	for name, regions := range map[string]int{"few": 4, "many": 10_000} {
		b.Run(name, func(b *testing.B) {
			var table mrTable
			var key uint32
			for range regions {
				m := &mr{}
				if err := table.insert(m); err != nil {
					b.Fatal(err)
				}
				key = m.key
			}
			for b.Loop() {
				if table.find(key) == nil {
					b.Fatal("the key is not in the table")
				}
			}
		})
	}
}
