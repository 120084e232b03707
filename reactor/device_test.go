package reactor_test

import (
	"errors"
	"os"
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

// Requests fail as they do when the peer is not there any more, but the
// connection manager does not say so: after a moment that is reason enough.
func TestNoAnswerAndNoGoodbye(t *testing.T) {
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
	reactor.Oversleep(p.server)
	drive(t, func() bool { return came == 1 }, p.server)
	require.NoError(t, p.server.Close())
	require.EqualValues(t, 1, p.server.Stats().Rescues)
}

// A provider that has no more channels is refused in one piece.
type fewChannels struct {
	cm.Provider
	left int
}

var errNoChannel = errors.New("no channel")

func (p *fewChannels) OpenChannel() (cm.TransportChannel, error) {
	if p.left--; p.left < 0 {
		return nil, errNoChannel
	}
	return p.Provider.OpenChannel()
}

func TestNewGivesEverythingBackWhenItFails(t *testing.T) {
	for channels := range 3 { // the door's, and one for each loop
		p := &fewChannels{Provider: openSoft(t, 2), left: channels}
		_, err := reactor.New(p, &hooks{}, &reactor.Config{Loops: 2})
		require.ErrorIs(t, err, errNoChannel)
	}
}

// A peer whose process went away is told from one that closed.
func TestPeerGone(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	reactor.PeerLeft(p.dialed, verbs.ErrPeerGone)
	p.closed(t)
	require.Equal(t, verbs.ErrPeerGone, p.dialEnd)
}

// Also if this side was about to close, and the peer has not got everything.
func TestPeerGoneWhileDraining(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.NoError(t, p.dialed.Send([]byte("lost")))
	require.NoError(t, p.dialed.Close())
	reactor.PeerLeft(p.dialed, verbs.ErrPeerGone)
	drive(t, func() bool { return p.dialOver > 0 }, p.client) // the server makes no turn
	require.ErrorIs(t, p.dialEnd, verbs.ErrPeerGone)
	require.NotErrorIs(t, p.dialEnd, reactor.ErrPeerClosed)
}

// A dyingProvider has one device, which says of itself what the test says.
// Nothing can be connected over it.
type dyingProvider struct {
	cm.Provider
	dev *dyingDevice
}

func (p dyingProvider) Devices() ([]verbs.Device, error) { return []verbs.Device{p.dev}, nil }

type dyingDevice struct {
	verbs.Device
	asyncFD int
	async   func(*verbs.AsyncEvent) (bool, error)
	arm     error
}

func (d *dyingDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	return &dyingCQ{c, d}, err
}

func (d *dyingDevice) AsyncFD() int { return d.asyncFD }

func (d *dyingDevice) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return d.async(ev) }

type dyingCQ struct {
	verbs.CQ
	dev *dyingDevice
}

func (c *dyingCQ) Arm(solicited bool) error {
	if c.dev.arm != nil {
		return c.dev.arm
	}
	return c.CQ.Arm(solicited)
}

// A device that dies takes neither the engine with it nor the loop's sleep.
func TestDyingDevice(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, w.Close()) // so that r is readable for good
	asked, dead := 0, errors.New("dead")
	dev := &dyingDevice{asyncFD: int(r.Fd()), async: func(ev *verbs.AsyncEvent) (bool, error) {
		if asked++; asked > 1 {
			return false, dead
		}
		ev.Type = verbs.AsyncDeviceFatal
		return true, nil
	}}
	p := openSoft(t, 1)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev.Device = devices[0]
	l, err := reactor.NewLoop(dyingProvider{p, dev}, &hooks{}, nil)
	require.NoError(t, err)
	_, err = l.Lease() // the loop meets its device
	require.NoError(t, err)
	drive(t, func() bool { n, err := l.RunOnce(0); return n == 0 && err == nil }, l)
	require.Equal(t, 1, asked)
	dev.arm = dead
	busy, err := l.Arm()
	require.NoError(t, err)
	require.False(t, busy)
	require.NoError(t, l.Close())
	require.NoError(t, l.Engine().Wait())
}
