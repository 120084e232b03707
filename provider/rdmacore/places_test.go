//go:build cgo && linux

package rdmacore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// A completion also frees the places of earlier requests.
func TestOrderedPlaces(t *testing.T) {
	p := rdmacore.NewOrderedPlaces(5)
	for round := range uint64(100) {
		require.Equal(t, 5, p.Room())
		var at [5]uint32
		for i := range at {
			at[i] = p.Take(round*10 + uint64(i))
		}
		require.Zero(t, p.Room())
		id, ok := p.Settle(at[2])
		require.True(t, ok)
		require.Equal(t, round*10+2, id)
		require.Equal(t, 3, p.Room())
		for _, gone := range at[:3] {
			_, ok = p.Settle(gone)
			require.False(t, ok, "a place is settled only once")
		}
		id, ok = p.Settle(at[4])
		require.True(t, ok)
		require.Equal(t, round*10+4, id)
		p.Take(0)
		p.Take(0)
		p.Untake(1)
		require.Equal(t, 4, p.Room())
		p.Forget()
	}
}

func TestPoolPlaces(t *testing.T) {
	p := rdmacore.NewPoolPlaces(64)
	held := map[uint32]uint64{}
	rng := rand.New(rand.NewPCG(1, 2))
	for id := range uint64(10000) {
		if p.Room() > 0 && rng.IntN(2) == 0 {
			at := p.Take(id)
			require.NotContains(t, held, at)
			held[at] = id
		}
		// The places are 0 to 63. Settle must refuse other numbers.
		at := rng.Uint32N(70)
		want, have := held[at]
		got, ok := p.Settle(at)
		require.Equal(t, have, ok)
		if have {
			require.Equal(t, want, got)
			delete(held, at)
		}
		require.Equal(t, 64-len(held), p.Room())
	}
	p.Forget()
	require.Equal(t, 64, p.Room())
}

// FuzzSettle checks that Settle succeeds only for a place in use.
func FuzzSettle(f *testing.F) {
	f.Add(uint32(0), uint8(1))
	f.Add(uint32(6), uint8(7))
	f.Add(^uint32(0), uint8(3))
	f.Fuzz(func(t *testing.T, place uint32, taken uint8) {
		ordered, pool := rdmacore.NewOrderedPlaces(7), rdmacore.NewPoolPlaces(7)
		for range taken % 8 {
			ordered.Take(1)
			pool.Take(1)
		}
		_, ok := ordered.Settle(place)
		require.Equal(t, place < uint32(taken%8), ok)
		_, ok = pool.Settle(place)
		require.Equal(t, place < uint32(taken%8), ok)
		require.LessOrEqual(t, ordered.Room(), 7)
		require.LessOrEqual(t, pool.Room(), 7)
	})
}
