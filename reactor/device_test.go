package reactor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Events of the device end the connections they are about, and only those.
func TestDeviceEvents(t *testing.T) {
	for _, what := range []verbs.AsyncEventType{
		verbs.AsyncQPFatal, verbs.AsyncQPAccessError, verbs.AsyncCQError, verbs.AsyncDeviceFatal,
	} {
		t.Run(what.String(), func(t *testing.T) {
			p := connect(t, &hooks{}, &hooks{}, nil)
			reactor.DeviceEvent(p.dialed, verbs.AsyncPortActive)
			require.Equal(t, reactor.StateOpen, p.dialed.State())
			reactor.DeviceEvent(p.dialed, what)
			p.closed(t)
			var event *reactor.AsyncError
			require.ErrorAs(t, p.dialEnd, &event)
			require.Equal(t, what, event.Type)
			require.ErrorContains(t, p.dialEnd, what.String())
		})
	}
}

// A completion queue that fails ends its connections at once, for nothing can be
// flushed any more; every operation is reported all the same.
func TestBrokenCompletionQueue(t *testing.T) {
	broken := errors.New("broken")
	var ends []error
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) { ends = append(ends, err) }}, &hooks{}, nil)
	require.NoError(t, p.dialed.SendMsg(nil, reactor.SendOptions{Notify: true}))
	reactor.FailCQ(p.dialed, broken)
	p.closed(t)
	require.ErrorIs(t, p.dialEnd, broken)
	require.Equal(t, []error{broken}, ends)
}
