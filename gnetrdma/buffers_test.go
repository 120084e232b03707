package gnetrdma

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOutput checks an output against a slice, with random pieces.
func TestOutput(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	var o output
	var want []byte
	for n := range 2000 {
		if random.IntN(2) == 0 {
			b := bytes.Repeat([]byte{byte(n)}, random.IntN(2*chunkSize))
			o.add(b)
			want = append(want, b...)
		}
		if o.len() > 0 {
			size := 1 + random.IntN(len(o.first()))
			require.True(t, bytes.HasPrefix(want, o.first()[:size]))
			o.remove(size)
			want = want[size:]
		}
		require.Equal(t, len(want), o.len())
	}
	o.free()
	require.Zero(t, o.len())
	require.Empty(t, o.chunks)
}

// TestInput checks the states of an input, and that its bytes stay when they are moved.
func TestInput(t *testing.T) {
	var in input
	in.borrow([]byte("abc"))
	in.remove(1)
	in.keep()
	require.Equal(t, inputOwned, in.state)
	copy(in.grow(1000), bytes.Repeat([]byte("d"), 1000))
	require.Equal(t, "bc"+string(bytes.Repeat([]byte("d"), 1000)), string(in.bytes))
	in.remove(1002)
	in.keep()
	require.Equal(t, input{}, in)
	in.borrow([]byte("abc"))
	in.remove(3)
	in.keep()
	require.Equal(t, input{}, in)
}

// TestUnixNano checks the times that an int64 can not hold.
func TestUnixNano(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	require.EqualValues(t, math.MaxInt64, unixNano(year(2600)))
	require.EqualValues(t, 1, unixNano(year(1600)))
	require.EqualValues(t, 1, unixNano(time.Unix(0, 0)))
	require.Equal(t, year(2026).UnixNano(), unixNano(year(2026)))
}
