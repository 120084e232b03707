//go:build linux

package fdevent

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]int{
		math.MinInt64:                      -1,
		-1:                                 -1,
		0:                                  0,
		1:                                  1,
		time.Millisecond:                   1,
		time.Millisecond + 1:               2,
		math.MaxInt32 * time.Millisecond:   math.MaxInt32,
		math.MaxInt32*time.Millisecond + 1: math.MaxInt32,
		math.MaxInt64:                      math.MaxInt32,
	} {
		require.Equal(t, want, milliseconds(d), "%d", d)
	}
}
