package slots_test

import (
	"math"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/stretchr/testify/require"
)

func TestPutGetRemove(t *testing.T) {
	var table slots.Table[string]
	a, b := table.Put("a"), table.Put("b")
	require.NotEqual(t, a, b)
	require.Equal(t, 2, table.Len())

	v, ok := table.Get(a)
	require.True(t, ok)
	require.Equal(t, "a", *v)

	*v = "changed in place"
	got, ok := table.Remove(a)
	require.True(t, ok)
	require.Equal(t, "changed in place", got)
	require.Equal(t, 1, table.Len())

	v, ok = table.Get(b)
	require.True(t, ok)
	require.Equal(t, "b", *v)
}

func TestHandleLayout(t *testing.T) {
	var table slots.Table[int]
	require.Equal(t, slots.Handle(1<<32), table.Put(0), "index 0, generation 1")
	require.Equal(t, slots.Handle(1<<32|1), table.Put(0), "index 1, generation 1")
}

func TestAt(t *testing.T) {
	var table slots.Table[string]
	h := table.Put("a")
	require.Equal(t, "a", table.At(h.Index()))
	require.Equal(t, "a", table.RemoveAt(h.Index()))
	require.Empty(t, table.At(h.Index()), "the slot is free")
	require.Zero(t, table.Len())
	requireStale(t, &table, h)
	require.Panics(t, func() { table.RemoveAt(h.Index()) })

	h = table.Put("b")
	require.EqualValues(t, 2, h.Generation())
	require.Equal(t, "b", table.At(h.Index()))
	for _, index := range []int{-1, 1, math.MaxInt} {
		require.Empty(t, table.At(index), "there is no slot %d", index)
		require.Panics(t, func() { table.RemoveAt(index) })
	}
}

func TestUnknownHandles(t *testing.T) {
	var table slots.Table[int]
	removed := table.Put(1)
	table.Remove(removed)
	// The next value in the slot will have this handle.
	next := removed + 1<<32

	for _, h := range []slots.Handle{0, 1, removed, next, 1<<32 | 1, math.MaxUint32, math.MaxUint64} {
		requireStale(t, &table, h)
	}
	require.Zero(t, table.Len())
}

func TestStaleHandleFindsNoValue(t *testing.T) {
	var table slots.Table[int]
	first := table.Put(1)
	table.Remove(first)
	second := table.Put(2)
	require.Equal(t, uint32(first), uint32(second), "Put must reuse the slot")

	requireStale(t, &table, first)
	v, ok := table.Get(second)
	require.True(t, ok)
	require.Equal(t, 2, *v)
}

func TestGenerationWrapsAroundZero(t *testing.T) {
	var table slots.Table[int]
	last := table.SetGeneration(table.Put(1), math.MaxUint32)
	v, ok := table.Get(last)
	require.True(t, ok)
	require.Equal(t, 1, *v)

	table.Remove(last)
	require.Equal(t, slots.Handle(1<<32), table.Put(2))
	requireStale(t, &table, last)
	requireStale(t, &table, 0)
}

func TestTheSlotFreedLastIsUsedFirst(t *testing.T) {
	var table slots.Table[int]
	h := []slots.Handle{table.Put(0), table.Put(1), table.Put(2)}
	table.Remove(h[0])
	table.Remove(h[2])

	require.Equal(t, uint32(2), uint32(table.Put(3)))
	require.Equal(t, uint32(0), uint32(table.Put(4)))
	require.Equal(t, uint32(3), uint32(table.Put(5)), "the table grows when no slot is free")
}

func TestAll(t *testing.T) {
	var table slots.Table[string]
	a, b, c := table.Put("a"), table.Put("b"), table.Put("c")
	table.Remove(b)

	got := map[slots.Handle]string{}
	for h, v := range table.All() {
		got[h] = *v
	}
	require.Equal(t, map[slots.Handle]string{a: "a", c: "c"}, got)

	for range table.All() {
		break
	}
}

func TestAllAllowsRemoveAndPut(t *testing.T) {
	var table slots.Table[int]
	for i := range 8 {
		table.Put(i)
	}
	seen := 0
	for h := range table.All() {
		table.Remove(h)
		if seen++; seen == 3 {
			// Put uses the slot of the removed value, which the iteration has already
			// passed.
			table.Put(100)
		}
	}
	require.Equal(t, 8, seen)
	require.Equal(t, 1, table.Len())
}

func TestRemoveClearsTheSlot(t *testing.T) {
	var table slots.Table[*int]
	h := table.Put(new(int))
	v, _ := table.Get(h)
	table.Remove(h)
	require.Nil(t, *v, "the slot still refers to the value")
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var table slots.Table[[4]uint64]
	for range 16 {
		table.Put([4]uint64{})
	}
	table.Remove(table.Put([4]uint64{}))

	sum := 0
	allocs := testing.AllocsPerRun(1000, func() {
		h := table.Put([4]uint64{1})
		if _, ok := table.Get(h); ok {
			sum++
		}
		for range table.All() {
			sum++
		}
		table.Remove(h)
	})
	require.Zero(t, allocs)
	require.NotZero(t, sum)
}

// FuzzTable compares random calls on a table with a map.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2, 0, 4, 0})
	f.Add([]byte{0, 1, 0, 1, 1, 0, 0, 3, 5, 7, 9})
	f.Fuzz(func(t *testing.T, calls []byte) {
		var table slots.Table[int]
		model := map[slots.Handle]int{}
		var issued []slots.Handle
		for i, call := range calls {
			if call%2 == 0 || len(issued) == 0 {
				h := table.Put(i)
				require.NotContains(t, issued, h)
				issued, model[h] = append(issued, h), i
				continue
			}
			h := issued[int(call/2)%len(issued)]
			want, known := model[h]
			got, ok := table.Remove(h)
			require.Equal(t, known, ok)
			require.Equal(t, want, got)
			delete(model, h)
		}
		requireSame(t, model, &table)
	})
}

func requireSame(t *testing.T, model map[slots.Handle]int, table *slots.Table[int]) {
	t.Helper()
	got := map[slots.Handle]int{}
	for h, v := range table.All() {
		got[h] = *v
	}
	require.Equal(t, model, got)
	require.Equal(t, len(model), table.Len())
}

func requireStale[T any](t *testing.T, table *slots.Table[T], h slots.Handle) {
	t.Helper()
	_, ok := table.Get(h)
	require.False(t, ok, "Get of %#x", uint64(h))
	_, ok = table.Remove(h)
	require.False(t, ok, "Remove of %#x", uint64(h))
}
