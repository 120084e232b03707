package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTimeBeforeACallback checks that the time since the last reading of the clock, in which the
// loop has found the work of a callback, counts as busy. A turn function may find nothing.
func TestTimeBeforeACallback(t *testing.T) {
	for name, busy := range map[string]bool{"OnMessage": true, nameOfTurnFunc: false} {
		l := &Loop{engine: &Engine{}, cfg: &Config{Limits: Limits{SlowCallback: time.Hour}}, observed: true}
		l.clock.origin = time.Now().Add(-time.Minute)
		l.callbackStart(name, nil, nil)
		require.Equal(t, busy, l.clock.busy >= time.Minute, name)
		require.Equal(t, !busy, l.clock.spinning >= time.Minute, name)
	}
}
