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

// A failingProvider has one device, which the test can make fail.
type failingProvider struct {
	cm.Provider
	dev *failingDevice
}

func (p failingProvider) Devices() ([]verbs.Device, error) { return []verbs.Device{p.dev}, nil }

type failingDevice struct {
	verbs.Device
	asyncFD int                                   // result of AsyncFD
	async   func(*verbs.AsyncEvent) (bool, error) // function that NextAsync calls
	arm     error                                 // error that CQ.Arm returns, or nil
}

func (d *failingDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	return &failingCQ{c, d}, err
}

func (d *failingDevice) AsyncFD() int { return d.asyncFD }

func (d *failingDevice) NextAsync(ev *verbs.AsyncEvent) (bool, error) { return d.async(ev) }

type failingCQ struct {
	verbs.CQ
	dev *failingDevice
}

func (c *failingCQ) Arm(solicited bool) error {
	if c.dev.arm != nil {
		return c.dev.arm
	}
	return c.CQ.Arm(solicited)
}

// TestFatalDeviceEvent checks that the engine continues, and the loop can sleep, after a
// fatal event of a device.
func TestFatalDeviceEvent(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	// The pipe has no writer, so the descriptor of r is always readable.
	require.NoError(t, w.Close())
	calls, failed := 0, errors.New("device failed")
	dev := &failingDevice{asyncFD: int(r.Fd()), async: func(ev *verbs.AsyncEvent) (bool, error) {
		if calls++; calls > 1 {
			return false, failed
		}
		ev.Type = verbs.AsyncDeviceFatal
		return true, nil
	}}
	p := openSoft(t)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev.Device = devices[0]
	l, err := reactor.NewLoop(failingProvider{p, dev}, &hooks{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, reactor.OpenDevice(l, dev))
	drive(t, func() bool { n, err := l.RunOnce(0); return n == 0 && err == nil }, l)
	require.Equal(t, 1, calls)
	dev.arm = failed
	busy, err := reactor.Arm(l)
	require.NoError(t, err)
	require.False(t, busy)
	require.NoError(t, l.Close())
	require.NoError(t, l.Engine().Wait())
}

// TestFailedCQLetsTheLoopSleep checks that a loop can sleep although CQ.Arm fails.
func TestFailedCQLetsTheLoopSleep(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	dev := &failingDevice{asyncFD: int(r.Fd()), async: func(*verbs.AsyncEvent) (bool, error) { return false, nil }}
	p := openSoft(t)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev.Device = devices[0]
	l, err := reactor.NewLoop(failingProvider{p, dev}, &hooks{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, reactor.OpenDevice(l, dev))
	dev.arm = errors.New("arm failed")
	drive(t, func() bool {
		busy, err := reactor.Arm(l)
		require.NoError(t, err)
		return !busy
	}, l)
}

// TestAsyncEventsAreWatchedAfterAFailure checks that a loop watches a device's
// asynchronous events at the second attempt if the first one fails.
func TestAsyncEventsAreWatchedAfterAFailure(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	// Without a writer, the descriptor of r is always readable.
	require.NoError(t, w.Close())
	calls := 0
	dev := &failingDevice{asyncFD: -1, async: func(*verbs.AsyncEvent) (bool, error) { calls++; return false, nil }}
	p := openSoft(t)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev.Device = devices[0]
	l, err := reactor.NewLoop(failingProvider{p, dev}, &hooks{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.Error(t, reactor.OpenDevice(l, dev))
	dev.asyncFD = int(r.Fd())
	require.NoError(t, reactor.OpenDevice(l, dev))
	drive(t, func() bool { return calls > 0 }, l)
}

// TestQueuePairEventVisitsOneConnection checks that an event of a queue pair costs
// nothing for other connections. The loop has connections that are nil, so a visit
// panics.
func TestQueuePairEventVisitsOneConnection(t *testing.T) {
	for _, kind := range []verbs.AsyncEventType{
		verbs.AsyncQPFatal, verbs.AsyncQPRequestError, verbs.AsyncQPAccessError, verbs.AsyncQPLastWQE,
		verbs.AsyncSRQLimit, verbs.AsyncPortError,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			p := connect(t, &hooks{}, &hooks{}, nil)
			remove := reactor.AddNilConns(p.client, 9000)
			reactor.InjectDeviceEvent(p.dialed, kind)
			remove()
			if kind == verbs.AsyncQPLastWQE || kind == verbs.AsyncSRQLimit || kind == verbs.AsyncPortError {
				require.Equal(t, reactor.StateOpen, p.dialed.State())
				return
			}
			p.closed(t)
			var event *verbs.AsyncError
			require.ErrorAs(t, p.dialCloseErr, &event)
			require.Equal(t, kind, event.Type)
		})
	}
}

// TestQueuePairEventWakesOneLoop checks that the event of a queue pair goes to the loop
// of its connection only.
func TestQueuePairEventWakesOneLoop(t *testing.T) {
	opened, closed := make(chan *reactor.Conn, 1), make(chan error, 1)
	e := start(t, &hooks{
		request: func(r *reactor.ConnRequest) {
			_ = r.Accept(&reactor.AcceptOptions{Loop: r.Engine().Loop(1)})
		},
		open:  func(c *reactor.Conn) { opened <- c },
		close: func(_ *reactor.Conn, err error) { closed <- err },
	}, &reactor.Config{NumLoops: 4})
	client := start(t, &hooks{}, nil)
	require.NoError(t, client.Dial(listen(t, e), nil))
	c := receive(t, opened)
	posted := func(i int) uint64 {
		n := make(chan uint64, 1)
		require.NoError(t, e.Loop(i).Post(func() { n <- reactor.PostedFunctions(e.Loop(i)) }))
		return receive(t, n)
	}
	before := []uint64{posted(2), posted(3)}
	require.NoError(t, e.Loop(0).Post(func() { reactor.InjectDeviceEventOn(e.Loop(0), c, verbs.AsyncQPFatal) }))
	require.ErrorContains(t, receive(t, closed), verbs.AsyncQPFatal.String())
	for i, n := range before {
		require.Equal(t, n+1, posted(2+i), "only the call of posted itself")
	}
}

// TestQueuePairEventAfterTheEnd checks that an event of a connection that has ended has
// no effect, and that the engine keeps nothing of it.
func TestQueuePairEventAfterTheEnd(t *testing.T) {
	p := connect(t, &hooks{}, &hooks{}, nil)
	require.Equal(t, 1, reactor.OwnedQPs(p.client.Engine()))
	require.NoError(t, p.dialed.Abort(nil))
	p.closed(t)
	p.drive(t, func() bool { return p.dialed.State() == reactor.StateClosed })
	require.Zero(t, reactor.OwnedQPs(p.client.Engine()))
	reactor.InjectDeviceEvent(p.dialed, verbs.AsyncQPFatal)
	reactor.InjectLateEvent(p.dialed, verbs.AsyncQPFatal)
	require.Equal(t, reactor.StateClosed, p.dialed.State())
	require.Equal(t, 1, p.dialCloses)
}
