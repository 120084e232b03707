package psn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/psn"
)

const (
	last = 1<<24 - 1
	half = 1 << 23
)

func TestNewKeeps24Bits(t *testing.T) {
	require.Equal(t, psn.Value(0xabcdef), psn.New(0xabcdef))
	require.Equal(t, psn.Value(0xabcdef), psn.New(0x12abcdef))
	require.Equal(t, psn.Value(0), psn.New(1<<24))
}

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		v    psn.Value
		n    int
		want psn.Value
	}{
		{0, 0, 0},
		{5, 3, 8},
		{last, 1, 0},
		{last - 1, 5, 3},
		{0, -1, last},
		{3, -5, last - 1},
		{7, 1 << 24, 7},
		{7, -(1 << 24), 7},
		{7, 3<<24 + 1, 8},
		{last, 1 << 23, half - 1},
	} {
		require.Equal(t, c.want, c.v.Add(c.n), "%#x + %d", c.v, c.n)
	}
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		v, w psn.Value
		sub  int
	}{
		{0, 0, 0},
		{last, last, 0},
		{9, 4, 5},
		{4, 9, -5},
		{0, last, 1},
		{last, 0, -1},
		{2, last - 2, 5},
		{last - 2, 2, -5},
		{half - 1, 0, half - 1},
		{0, half - 1, 1 - half},
		{half, 0, -half},
		{0, half, -half},
		{half + 1, 0, 1 - half},
	} {
		require.Equal(t, c.sub, c.v.Sub(c.w), "%#x - %#x", c.v, c.w)
		require.Equal(t, c.sub < 0, c.v.Before(c.w), "%#x before %#x", c.v, c.w)
		require.Equal(t, c.sub > 0, c.v.After(c.w), "%#x after %#x", c.v, c.w)
	}
}

func TestIn(t *testing.T) {
	for _, c := range []struct {
		v, first psn.Value
		n        int
		want     bool
	}{
		{10, 10, 1, true},
		{11, 10, 1, false},
		{9, 10, 1, false},
		{10, 10, 0, false},
		{10, 10, -1, false},
		{last, last - 1, 4, true},
		{0, last - 1, 4, true},
		{1, last - 1, 4, true},
		{2, last - 1, 4, false},
		{last - 2, last - 1, 4, false},
		{half + 5, 4, half + 2, true},
		{half + 6, 4, half + 2, false},
		{3, 4, 1 << 24, true},
		{3, 4, last, false},
		{3, 4, 1 << 30, true},
	} {
		require.Equal(t, c.want, c.v.In(c.first, c.n), "%#x in %d from %#x", c.v, c.n, c.first)
	}
}

// FuzzValue checks that the methods agree with each other.
func FuzzValue(f *testing.F) {
	f.Add(uint32(last), 1)
	f.Add(uint32(0), -1)
	f.Add(uint32(half), half)
	f.Add(uint32(0x00abcdef), -0x654321)
	f.Fuzz(func(t *testing.T, start uint32, n int) {
		v := psn.New(start)
		w := v.Add(n)
		require.LessOrEqual(t, w, psn.Value(last))
		require.Equal(t, v, w.Add(-n))
		require.Equal(t, w, v.Add(w.Sub(v)), "Sub is the step that Add takes")
		if d := w.Sub(v); d != -half {
			require.Equal(t, -d, v.Sub(w))
			require.NotEqual(t, w == v, w.Before(v) != w.After(v))
		}
		if n > 0 && n <= last {
			require.False(t, w.In(v, n))
			require.True(t, w.In(v, n+1))
		}
	})
}
