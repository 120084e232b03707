//go:build cgo && linux

package rdmacore_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

func TestWRID(t *testing.T) {
	tag, place := rdmacore.SplitWRID(rdmacore.WRID(0xabcdef<<24, 12345))
	require.Equal(t, uint64(0xabcdef<<24), tag)
	require.Equal(t, uint32(12345), place)
	_, place = rdmacore.SplitWRID(rdmacore.WRID(1<<63, rdmacore.MaxPlaces-1))
	require.Equal(t, uint32(rdmacore.MaxPlaces-1), place)
}

func TestRegistry(t *testing.T) {
	var r rdmacore.Registry
	require.Nil(t, r.Find(0))
	tags := map[uint64]*rdmacore.Queue{}
	for i := range 300 {
		q := rdmacore.NewQueue(i)
		tag, ok := r.Add(q)
		require.True(t, ok)
		require.NotContains(t, tags, tag)
		tags[tag] = q
	}
	for tag, q := range tags {
		require.Same(t, q, r.Find(tag))
	}
	for tag := range tags {
		r.Remove(tag)
		require.Nil(t, r.Find(tag))
		again, ok := r.Add(rdmacore.NewQueue(0))
		require.True(t, ok)
		require.NotEqual(t, tag, again, "the slot is used again, the tag is not")
		require.Nil(t, r.Find(tag))
		r.Remove(again)
	}
	require.Nil(t, r.Find(^uint64(0)))
}

// A queue is found while other goroutines add and remove queues.
func TestRegistryConcurrent(t *testing.T) {
	var r rdmacore.Registry
	steady := rdmacore.NewQueue(1)
	tag, _ := r.Add(steady)
	var adders sync.WaitGroup
	for range 4 {
		adders.Go(func() {
			var mine []uint64
			for i := range 1000 {
				added, _ := r.Add(rdmacore.NewQueue(i))
				mine = append(mine, added)
			}
			for _, added := range mine {
				r.Remove(added)
			}
		})
	}
	for range 10000 {
		if r.Find(tag) != any(steady) {
			t.Error("lost")
			break
		}
	}
	adders.Wait()
	require.Same(t, steady, r.Find(tag))
}
