package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nextCheck requires that l has a next check, and returns its time.
func nextCheck(t *testing.T, l *liveness, keepalive time.Duration, tr traffic) time.Duration {
	t.Helper()
	when, none := l.nextCheck(keepalive, keepalive, tr)
	require.False(t, none)
	return when
}

func TestLivenessWithoutLimits(t *testing.T) {
	var l liveness
	_, none := l.nextCheck(0, 0, traffic{})
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

// TestLivenessProbe checks when a probe is due, and that there is one at a time.
func TestLivenessProbe(t *testing.T) {
	const keepalive = 160
	var l liveness
	var tr traffic
	tr.receivedAt = 101
	require.False(t, l.probeDue(260, keepalive, tr))
	require.EqualValues(t, 270, nextCheck(t, &l, keepalive, tr), "rounded up to a sixteenth of the keepalive time")
	require.True(t, l.probeDue(261, keepalive, tr))
	l.probePosted(265, true)
	require.False(t, l.probeDue(1000, keepalive, tr), "one probe at a time")
	l.probeCompleted()
	tr.confirmedAt = 425
	require.NoError(t, l.check(1000, keepalive, tr))
	require.False(t, l.probeDue(584, keepalive, tr))
	require.True(t, l.probeDue(585, keepalive, tr))
}

// TestLivenessAnswer checks that the answer to a probe is looked for four times, and that
// time between two checks in which the loop did not run counts as one.
func TestLivenessAnswer(t *testing.T) {
	const answer = 40
	var l liveness
	var tr traffic
	l.probePosted(100, true)
	for i, now := range []time.Duration{110, 1000, 1010} {
		require.LessOrEqual(t, nextCheck(t, &l, answer, tr), now, "check %d", i)
		require.NoError(t, l.check(now, answer, tr), "check %d", i)
		require.NoError(t, l.check(now+1, answer, tr), "the same check again")
	}
	require.EqualValues(t, 1020, nextCheck(t, &l, answer, tr))
	require.Equal(t, ErrKeepalive, l.check(1020, answer, tr))
	l.probePosted(2000, true)
	require.NoError(t, l.check(2010, answer, tr), "another probe")
}

// TestLivenessProbeBehindSends checks that a missing answer to a probe behind other
// sends is no error.
func TestLivenessProbeBehindSends(t *testing.T) {
	const keepalive = 160
	var l liveness
	l.probePosted(160, false)
	for now := time.Duration(200); now < 1000; now += 40 {
		require.EqualValues(t, now, nextCheck(t, &l, keepalive, traffic{}))
		require.NoError(t, l.check(now, keepalive, traffic{}))
	}
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
