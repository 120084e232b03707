package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEpollSchedule(t *testing.T) {
	const now = time.Second
	var s epollSchedule
	s.fetched = 3
	s.checked(now, 3)
	require.Zero(t, s.fetched)
	require.False(t, s.due(now))
	require.False(t, s.due(now))
	require.True(t, s.due(now), "the third turn")

	s.checked(now, 1000)
	require.False(t, s.due(now+maxEpollInterval-1))
	require.True(t, s.due(now+maxEpollInterval))

	s.checked(now, 1000)
	s.checkSoon()
	require.True(t, s.due(now))
}

// TestEpollScheduleExpectsEvents checks that a loop expects another event for eventGap
// after a connection event.
func TestEpollScheduleExpectsEvents(t *testing.T) {
	const now = time.Second
	var s epollSchedule
	require.False(t, s.expects(now))
	s.checked(now, 1000)
	s.expectMore(now)
	s.checked(now, 1000)
	require.True(t, s.expects(now+eventGap-1))
	require.False(t, s.expects(now+eventGap))
}
