package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nextCheck requires that l has a next check, and returns its time.
func nextCheck(t *testing.T, l *liveness, keepalive time.Duration, tr traffic) time.Duration {
	t.Helper()
	when, none := l.nextCheck(keepalive, tr)
	require.False(t, none)
	return when
}

func TestLivenessWithoutLimits(t *testing.T) {
	var l liveness
	_, none := l.nextCheck(0, traffic{})
	require.True(t, none)
	require.False(t, l.probeDue(1000*time.Hour, 0, traffic{}))
	require.NoError(t, l.check(1000*time.Hour, 0, traffic{}))
}

// TestLivenessIdle checks that a send, a receive and a new timeout each restart the idle
// timeout.
func TestLivenessIdle(t *testing.T) {
	var l liveness
	var tr traffic
	l.setIdleTimeout(10, 100, tr)
	require.EqualValues(t, 110, nextCheck(t, &l, 0, tr))
	require.NoError(t, l.check(109, 0, tr))
	require.Equal(t, ErrIdle, l.check(110, 0, tr))
	tr.accepted++
	require.NoError(t, l.check(115, 0, tr), "the send was before this check")
	require.EqualValues(t, 125, nextCheck(t, &l, 0, tr))
	tr.receivedAt = 116
	require.NoError(t, l.check(130, 0, tr))
	tr.confirmedAt = 135
	require.Equal(t, ErrIdle, l.check(140, 0, tr), "a confirmation is not activity")
	l.setIdleTimeout(10, 140, tr)
	require.NoError(t, l.check(149, 0, tr))
	l.setIdleTimeout(-1, 149, tr)
	require.NoError(t, l.check(1000, 0, tr))
}

// TestLivenessProbe checks that a probe without other sends must be answered within the
// keepalive time.
func TestLivenessProbe(t *testing.T) {
	const keepalive = 160
	var l liveness
	var tr traffic
	tr.receivedAt = 100
	require.False(t, l.probeDue(259, keepalive, tr))
	require.True(t, l.probeDue(260, keepalive, tr))
	require.EqualValues(t, 260, nextCheck(t, &l, keepalive, tr))
	l.probePosted(265, true)
	require.False(t, l.probeDue(300, keepalive, tr), "one probe at a time")
	require.EqualValues(t, 430, nextCheck(t, &l, keepalive, tr), "rounded up to a sixteenth of the keepalive time")
	require.NoError(t, l.check(424, keepalive, tr))
	require.Equal(t, ErrKeepalive, l.check(425, keepalive, tr))
	l.probeCompleted()
	tr.confirmedAt = 425
	require.NoError(t, l.check(1000, keepalive, tr))
	require.False(t, l.probeDue(584, keepalive, tr))
	require.True(t, l.probeDue(585, keepalive, tr))
}

// TestLivenessProbeBehindSends checks that a missing answer to a probe behind other
// sends is no error.
func TestLivenessProbeBehindSends(t *testing.T) {
	const keepalive = 160
	var l liveness
	var tr traffic
	l.probePosted(160, false)
	require.EqualValues(t, 320, nextCheck(t, &l, keepalive, tr))
	require.NoError(t, l.check(320, keepalive, tr))
	require.False(t, l.probeDue(320, keepalive, tr))
	require.EqualValues(t, 480, nextCheck(t, &l, keepalive, tr))
}

// TestLivenessWithBothLimits checks that the next check is at the end of the idle
// timeout or of the keepalive time, whichever is earlier.
func TestLivenessWithBothLimits(t *testing.T) {
	var l liveness
	var tr traffic
	l.setIdleTimeout(50, 0, tr)
	require.EqualValues(t, 50, nextCheck(t, &l, 160, tr))
	l.setIdleTimeout(500, 0, tr)
	require.EqualValues(t, 160, nextCheck(t, &l, 160, tr))
}
