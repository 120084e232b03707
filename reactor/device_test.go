package reactor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
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
			reactor.InjectDeviceEvent(p.dialed, verbs.AsyncPortActive)
			require.Equal(t, reactor.StateOpen, p.dialed.State())
			reactor.InjectDeviceEvent(p.dialed, what)
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

// Requests fail as they do when the peer is not there any more, but the
// connection manager does not say so: after a moment that is reason enough.
func TestRetryExceededWithoutDisconnect(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	reactor.FailRequest(p.dialed, verbs.StatusRetryExcErr)
	p.closed(t)
	require.Equal(t, verbs.StatusRetryExcErr, status(t, p.dialEnd))
	require.Equal(t, reactor.ErrPeerClosed, p.acceptEnd)
}

// Completions that nothing announced are found, and counted.
func TestRescue(t *testing.T) {
	came := 0
	p := connect(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { came++ }}, nil)
	require.NoError(t, p.dialed.Send(nil))
	p.dialed.Flush()
	reactor.EndSleepByTimeout(p.server)
	drive(t, func() bool { return came == 1 }, p.server)
	require.NoError(t, p.server.Close())
	require.EqualValues(t, 1, p.server.Stats().Rescues)
}

// A provider that has no more channels is refused in one piece.
type limitedChannels struct {
	cm.Provider
	left int
}

var errNoChannel = errors.New("no channel")

func (p *limitedChannels) OpenChannel() (cm.TransportChannel, error) {
	if p.left--; p.left < 0 {
		return nil, errNoChannel
	}
	return p.Provider.OpenChannel()
}

func TestNewReleasesResourcesOnFailure(t *testing.T) {
	for channels := range 3 { // the door's, and one for each loop
		p := &limitedChannels{Provider: openSoft(t, 2), left: channels}
		_, err := reactor.New(p, &hooks{}, &reactor.Config{Loops: 2})
		require.ErrorIs(t, err, errNoChannel)
	}
}

// A peer whose process went away is told from one that closed.
func TestPeerGone(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	reactor.InjectDisconnected(p.dialed, verbs.ErrPeerGone)
	p.closed(t)
	require.Equal(t, verbs.ErrPeerGone, p.dialEnd)
}

// Also if this side was about to close, and the peer has not got everything.
func TestPeerGoneWhileDraining(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send([]byte("lost")))
	require.NoError(t, p.dialed.Close())
	reactor.InjectDisconnected(p.dialed, verbs.ErrPeerGone)
	drive(t, func() bool { return p.dialOver > 0 }, p.client) // the server makes no turn
	require.ErrorIs(t, p.dialEnd, verbs.ErrPeerGone)
	require.NotErrorIs(t, p.dialEnd, reactor.ErrPeerClosed)
}
