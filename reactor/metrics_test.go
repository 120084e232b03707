package reactor

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestStatsAddCoversEveryField checks that Stats.Add adds every field of Stats.
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

// TestStatsSubCoversEveryField checks that Stats.Sub subtracts every field of Stats, except
// gauges and maxima. It fails for a field of another kind.
func TestStatsSubCoversEveryField(t *testing.T) {
	var earlier, later, counted Stats
	fill(reflect.ValueOf(&earlier).Elem(), 3)
	fill(reflect.ValueOf(&later).Elem(), 10)
	fields := reflect.ValueOf(&counted).Elem()
	for i := range fields.NumField() {
		switch field := fields.Type().Field(i); field.Tag.Get("kind") {
		case "":
			fill(fields.Field(i), 7)
		case "gauge", "max":
			fill(fields.Field(i), 10)
		default:
			t.Errorf("field %s: Sub does not know this kind", field.Name)
		}
	}
	require.Equal(t, counted, later.Sub(earlier))
	require.EqualValues(t, 10, later.Messages, "Sub does not change its receiver")
	require.EqualValues(t, 7, later.Sub(earlier).Slept)
	require.EqualValues(t, 7, later.Sub(earlier).WakesPost)
	require.EqualValues(t, 10, later.Sub(earlier).Conns)
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

// TestStatsAll checks that Stats.All returns every counter with its own name and a
// description.
func TestStatsAll(t *testing.T) {
	names := make(map[string]verbs.Counter)
	s := Stats{LongestTurn: time.Microsecond, RNRErrors: 2, CQs: 3}
	s.WakesPost, s.Batches[4] = 4, 5
	for stat := range s.All() {
		require.NotContains(t, names, stat.Name)
		require.NotEmpty(t, stat.Help, stat.Name)
		names[stat.Name] = stat
	}
	fields := reflect.TypeFor[Stats]().NumField()
	require.Len(t, names, fields-1+len(s.Batches))
	require.Equal(t, verbs.Counter{
		Name: "longest_turn", Unit: "nanoseconds", Gauge: true, Value: 1000,
		Help: "longest time between two readings of the clock while the loop was awake",
	}, names["longest_turn"])
	require.EqualValues(t, 2, names["rnr_errors"].Value)
	require.EqualValues(t, 3, names["cqs"].Value)
	require.True(t, names["cqs"].Gauge)
	require.EqualValues(t, 4, names["wakes_post"].Value)
	require.EqualValues(t, 5, names["batches_16"].Value)
	require.Equal(t, "bytes", names["message_bytes"].Unit)
	for range s.All() {
		break
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
