package reactor

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOpeningTimeout checks the time limit of both sides, and that a timeout is repeated at
// most once for each connection whose events may wait.
func TestOpeningTimeout(t *testing.T) {
	cfg := &Config{Limits: Limits{ConnectTimeout: time.Second}}
	require.Equal(t, time.Second, (&opening{request: &ConnRequest{}}).limit(cfg))
	o := &opening{dial: &dialRequest{options: DialOptions{Timeout: time.Minute}}}
	require.Equal(t, time.Minute, o.limit(cfg))
	for range 3 {
		require.True(t, o.mayRepeat(3))
	}
	require.False(t, o.mayRepeat(3))
}

// TestCancelDialTooLate checks that a dial that is canceled just before OnOpen or OnDialError,
// when the loop has looked at its context already, has no effect.
func TestCancelDialTooLate(t *testing.T) {
	for s := stateOpenFailed; s <= stateClosed; s++ {
		c := Conn{state: s}
		c.cancelDial()
		require.Equal(t, s, c.state)
	}
}

// TestConnSize checks that a connection fits the size class of 896 bytes. The next class
// of the Go allocator has 1024 bytes.
func TestConnSize(t *testing.T) {
	require.LessOrEqual(t, reflect.TypeFor[Conn]().Size(), uintptr(896))
	require.LessOrEqual(t, reflect.TypeFor[Conn]().NumField(), 24)
}
