package reactor

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Add adds every field of Stats.
func TestStatsAddCoversEveryField(t *testing.T) {
	var one, sum Stats
	fill(reflect.ValueOf(&one).Elem(), 3)
	sum.Add(&one)
	require.Equal(t, one, sum)
	sum.Add(&one)
	require.EqualValues(t, 6, sum.Messages)
	require.EqualValues(t, 3, sum.LongestTurn)
	require.EqualValues(t, 3, sum.LongestCallback)
}

func fill(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Uint64:
		v.SetUint(uint64(n))
	default:
		v.SetInt(n)
	}
}

func TestBatchHistogram(t *testing.T) {
	var s Stats
	for _, n := range []int{1, 2, 3, 4, 64, 1 << 20} {
		s.countBatch(n)
	}
	require.EqualValues(t, 1, s.Batches[0])
	require.EqualValues(t, 2, s.Batches[1])
	require.EqualValues(t, 1, s.Batches[2])
	require.EqualValues(t, 1, s.Batches[6])
	require.EqualValues(t, 1, s.Batches[len(s.Batches)-1])
}
