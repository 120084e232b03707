//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestRNRRetry(t *testing.T) {
	const code = 12
	for left, retries := range map[uint8]int{0: 0, 2: 2, verbs.RNRRetryForever: 20} {
		s, r := stillShard(), rnrRetry{retriesLeft: left}
		r.timer.Init(s, timerheap.Func(r.fired))
		for range retries {
			require.True(t, r.refused(code), "%d", left)
			s.Timers.Expire(verbs.RNRDelay(code) - 1)
			require.True(t, r.waiting)
			s.Timers.Expire(verbs.RNRDelay(code))
			require.False(t, r.waiting)
		}
		require.Equal(t, left == verbs.RNRRetryForever, r.refused(code), "%d", left)
	}
}
