package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockAccountsTime(t *testing.T) {
	var k clock
	k.addWork(1)
	k.advance(10)
	k.advance(15)
	k.wakeAt(100)
	k.addWork(1)
	k.advance(103)
	require.Equal(t, time.Duration(13), k.busy)
	require.Equal(t, time.Duration(5), k.spinning)
	require.Equal(t, time.Duration(85), k.slept)
	require.Equal(t, time.Duration(10), k.longest)
	require.Equal(t, time.Duration(103), k.now)
}

// TestClockIsReadSeldom checks that an idle loop reads its clock every clockEvery turns,
// and a busy loop more often.
func TestClockIsReadSeldom(t *testing.T) {
	k := clock{origin: time.Now().Add(-time.Hour)}
	turns := 0
	for k.now == 0 {
		k.tick()
		turns++
	}
	require.Equal(t, clockEvery, turns)
	k.now, k.pendingCost, turns = 0, 0, 0
	for k.now == 0 {
		k.tick()
		turns++
		k.addWork(1)
	}
	require.Equal(t, 14, turns, "13 turns with work cost 1+workCost each, 65 together")
}
