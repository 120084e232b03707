package gnetrdma

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// drain removes the bytes of an output, at most step at once, and returns them.
func drain(o *output, step int) (all []byte) {
	for o.len() > 0 {
		b := o.first()[:min(step, len(o.first()))]
		all = append(all, b...)
		o.remove(len(b))
	}
	return all
}

// TestOutput checks that an output returns the bytes in their order, with parts that are
// shorter and longer than a chunk.
func TestOutput(t *testing.T) {
	for _, sizes := range [][]int{{1}, {chunkSize}, {chunkSize - 1, 2}, {3 * chunkSize, 5}, {0, 7}} {
		for _, step := range []int{1000, chunkSize, 2 * chunkSize} {
			var o output
			var want []byte
			for i, size := range sizes {
				part := bytes.Repeat([]byte{byte('a' + i)}, size)
				o.add(part)
				want = append(want, part...)
			}
			require.Equal(t, len(want), o.len())
			require.True(t, bytes.Equal(want, drain(&o, step)), "sizes %v, step %d", sizes, step)
			require.Zero(t, o.start)
		}
	}
}

// TestOutputRoom checks that bytes can be stored in the output itself, also if fewer are
// stored than there is room for, or none.
func TestOutputRoom(t *testing.T) {
	var o output
	o.room()
	o.added(0)
	require.Zero(t, o.len())
	for _, text := range []string{"first ", "second"} {
		n := copy(o.room(), text)
		o.added(n)
	}
	require.Len(t, o.chunks, 1)
	require.Equal(t, "first second", string(drain(&o, 5)))
}

// TestOutputFree checks that an output is empty after free, and can be used again.
func TestOutputFree(t *testing.T) {
	var o output
	o.add(make([]byte, 2*chunkSize))
	o.remove(10)
	o.free()
	require.Zero(t, o.len())
	require.Empty(t, o.chunks)
	o.add([]byte("again"))
	require.Equal(t, "again", string(drain(&o, chunkSize)))
}
