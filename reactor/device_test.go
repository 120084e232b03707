package reactor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestDeviceEvents checks that only an event that reports a failure ends the affected
// connections. The error names the event.
func TestDeviceEvents(t *testing.T) {
	for _, eventType := range []verbs.AsyncEventType{
		verbs.AsyncQPFatal, verbs.AsyncQPAccessError, verbs.AsyncCQError, verbs.AsyncDeviceFatal,
	} {
		t.Run(eventType.String(), func(t *testing.T) {
			p := connect(t, &hooks{}, &hooks{}, nil)
			reactor.InjectDeviceEvent(p.dialed, verbs.AsyncPortActive)
			require.Equal(t, reactor.StateOpen, p.dialed.State())
			reactor.InjectDeviceEvent(p.dialed, eventType)
			p.closed(t)
			var event *verbs.AsyncError
			require.ErrorAs(t, p.dialCloseErr, &event)
			require.Equal(t, eventType, event.Type)
			require.ErrorContains(t, p.dialCloseErr, eventType.String())
		})
	}
}

// TestBrokenCompletionQueue checks that a failing CQ ends its connections at once, and
// that every operation is reported.
func TestBrokenCompletionQueue(t *testing.T) {
	broken := errors.New("broken")
	var ends []error
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) { ends = append(ends, err) }}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send(nil, &reactor.OpOptions{Notify: true}))
	reactor.FailCQ(p.dialed, broken)
	p.closed(t)
	require.ErrorIs(t, p.dialCloseErr, broken)
	require.Equal(t, []error{broken}, ends)
}

// TestRetryExceededWithoutDisconnect checks that a connection ends with the error of a
// request that has used up its retries, even without cm.Disconnected.
func TestRetryExceededWithoutDisconnect(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	reactor.FailRequest(p.dialed, verbs.StatusRetryExcErr)
	p.closed(t)
	require.Equal(t, verbs.StatusRetryExcErr, status(t, p.dialCloseErr))
	require.Equal(t, &reactor.CloseError{Cause: reactor.ErrPeerClosed, Peer: reactor.CloseReason{Kind: reactor.CloseSilent}}, p.acceptCloseErr)
}

// TestRescue checks that Stats.Rescues counts a lost event. The loop finds completions
// after the safety timeout.
func TestRescue(t *testing.T) {
	received := 0
	p := connect(t, &hooks{}, &hooks{message: func(*reactor.Conn, reactor.Message) { received++ }}, nil)
	require.NoError(t, p.dialed.Send(nil, nil))
	p.dialed.Flush()
	reactor.EndSleepByTimeout(p.server)
	drive(t, func() bool { return received == 1 }, p.server)
	require.NoError(t, p.server.Close())
	require.EqualValues(t, 1, p.server.Stats().Rescues)
}

// limitedChannels is a provider with a limited number of event channels: it can open
// channelsLeft more.
type limitedChannels struct {
	cm.Provider
	channelsLeft int
}

var errNoChannel = errors.New("no channel")

func (p *limitedChannels) OpenChannel() (cm.TransportChannel, error) {
	if p.channelsLeft--; p.channelsLeft < 0 {
		return nil, errNoChannel
	}
	return p.Provider.OpenChannel()
}

func TestNewReleasesResourcesOnFailure(t *testing.T) {
	// New needs three channels. It fails here, and must close those that it has opened.
	for channels := range 3 {
		p := &limitedChannels{Provider: openSoft(t), channelsLeft: channels}
		_, err := reactor.New(p, &hooks{}, &reactor.Config{NumLoops: 2})
		require.ErrorIs(t, err, errNoChannel)
	}
}

// TestPeerGone checks that OnClose gets verbs.ErrPeerGone if the peer's process ends
// without a close.
func TestPeerGone(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	reactor.InjectDisconnected(p.dialed, verbs.ErrPeerGone)
	p.closed(t)
	require.Equal(t, verbs.ErrPeerGone, p.dialCloseErr)
}

// TestPeerGoneWhileDraining checks that OnClose gets verbs.ErrPeerGone if the peer's
// process ends during draining.
func TestPeerGoneWhileDraining(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send([]byte("lost"), nil))
	require.NoError(t, p.dialed.Close())
	reactor.InjectDisconnected(p.dialed, verbs.ErrPeerGone)
	// Only the client's loop runs, so the server's loop sends no answer.
	drive(t, func() bool { return p.dialCloses > 0 }, p.client)
	require.ErrorIs(t, p.dialCloseErr, verbs.ErrPeerGone)
	require.NotErrorIs(t, p.dialCloseErr, reactor.ErrPeerClosed)
}
