//go:build linux

package hostile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEchoTimes(t *testing.T) {
	var e echoTimes
	require.Zero(t, e.p999())
	for range 999 {
		e.add(time.Millisecond)
	}
	e.add(time.Hour)
	require.InEpsilon(t, time.Millisecond, e.p999(), 1./16)
	require.GreaterOrEqual(t, e.p999(), time.Millisecond)
	e.add(time.Minute)
	require.InEpsilon(t, time.Minute, e.p999(), 1./16)
	for _, d := range []time.Duration{0, 1, 31, 32, 1<<63 - 1} {
		e = echoTimes{}
		e.add(d)
		require.GreaterOrEqual(t, e.p999(), d)
	}
}
