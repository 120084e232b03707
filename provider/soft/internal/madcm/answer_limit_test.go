//go:build linux

package madcm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The answerLimit limits the rate of answers to one source, and the rate of all answers.
func TestAnswerLimit(t *testing.T) {
	l := newAnswerLimit()
	now := time.Unix(1000, 0)
	allowed := func(source, tries int) (n int) {
		for range tries {
			if l.allow(testSource(source), now) {
				n++
			}
		}
		return n
	}
	require.Equal(t, answersPerAddress, allowed(1, 10*answersPerAddress))
	require.True(t, l.allow(testSource(2), now))
	now = now.Add(time.Second / 2)
	require.InDelta(t, answersPerAddress/2, allowed(1, 10*answersPerAddress), 1)

	now = now.Add(time.Hour)
	sum := 0
	for source := range 10 * answersPerSecond {
		sum += allowed(source, 1)
	}
	require.Equal(t, answersPerSecond, sum)
	require.Zero(t, testing.AllocsPerRun(100, func() { l.allow(testSource(1), now) }))
}
