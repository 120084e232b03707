//go:build linux

package fdevent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/onthread"
)

// A wait should end long before this time.
const testTimeout = 10 * time.Second

// TestSignalsDoNotProlongTheWait checks that Readable ends after its timeout even if
// signals interrupt it again and again.
func TestSignalsDoNotProlongTheWait(t *testing.T) {
	const timeout = 20 * time.Millisecond
	event := newEvent(t)
	var took time.Duration
	var err error
	tid, done := onthread.Run(func() {
		start := time.Now()
		_, err = fdevent.Readable(event.FD(), timeout)
		took = time.Since(start)
	})
	onthread.Interrupt(t, tid, done)
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, timeout)
}
