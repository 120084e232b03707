package reactor_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A spinProvider has one device, whose CQs are verbs.SpinPollers. The test determines
// the results of the CQs. The device can not have connections.
type spinProvider struct {
	cm.Provider
	dev *spinDevice
}

func (p spinProvider) Devices() ([]verbs.Device, error) { return []verbs.Device{p.dev}, nil }

type spinDevice struct {
	verbs.Device
	// One element for each poll: the limit that PollSpin got, or 0 for a call of Poll.
	polls []time.Duration
	spin  func(dst []verbs.WC) int // function that PollSpin calls for its result

	asyncFD int // descriptor that AsyncFD returns; 0 means that of the device
	// Function that NextAsync calls for its result. Nil means that of the device.
	async func(*verbs.AsyncEvent) (bool, error)
	arm   error // error that Arm returns; nil means that Arm of the CQ is called
}

func (d *spinDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	c, err := d.Device.CreateCQ(attr)
	return &spinCQ{c, d}, err
}

func (d *spinDevice) AsyncFD() int {
	if d.asyncFD > 0 {
		return d.asyncFD
	}
	return d.Device.AsyncFD()
}

func (d *spinDevice) NextAsync(ev *verbs.AsyncEvent) (bool, error) {
	if d.async != nil {
		return d.async(ev)
	}
	return d.Device.NextAsync(ev)
}

type spinCQ struct {
	verbs.CQ
	dev *spinDevice
}

func (c *spinCQ) Poll(dst []verbs.WC) (int, error) {
	c.dev.polls = append(c.dev.polls, 0)
	return c.CQ.Poll(dst)
}

func (c *spinCQ) PollSpin(dst []verbs.WC, limit time.Duration) (int, error) {
	c.dev.polls = append(c.dev.polls, limit)
	return c.dev.spin(dst), nil
}

func (c *spinCQ) Arm(solicited bool) error {
	if c.dev.arm != nil {
		return c.dev.arm
	}
	return c.CQ.Arm(solicited)
}

// newSpinLoop makes a loop that has opened its device and has no work.
func newSpinLoop(t *testing.T, dev *spinDevice, cfg *reactor.Config) *reactor.Loop {
	t.Helper()
	p := openSoft(t, 1)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev.Device = devices[0]
	l, err := reactor.NewLoop(spinProvider{p, dev}, &hooks{}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	b, err := l.Lease(dev)
	require.NoError(t, err)
	b.Release()
	drive(t, func() bool { n, err := l.RunOnce(0); return n == 0 && err == nil }, l)
	dev.polls = nil
	return l
}

// afterThree returns a function for spinDevice.spin that returns one completion at every
// third call, and none at the other calls.
func afterThree() func([]verbs.WC) int {
	calls := 0
	return func(dst []verbs.WC) int {
		if calls++; calls%3 != 0 {
			return 0
		}
		dst[0] = verbs.WC{ID: ^uint64(0)} // an id that no connection has
		return 1
	}
}

// TestLoopSpinsInsideProvider checks that a loop without work waits for completions with
// PollSpin, inside the provider. In the first turn after a turn with work the loop must
// call Poll instead.
func TestLoopSpinsInsideProvider(t *testing.T) {
	for _, policy := range []reactor.IdlePolicy{reactor.IdleBusy, reactor.IdleAdaptive} {
		t.Run(policy.String(), func(t *testing.T) {
			dev := &spinDevice{spin: afterThree()}
			l := newSpinLoop(t, dev, &reactor.Config{Idle: policy, SpinBudget: testTimeout})
			for range 2 {
				dev.polls = nil
				n, err := l.RunOnce(testTimeout)
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.Len(t, dev.polls, 1+3)
				require.Zero(t, dev.polls[0])
				for _, limit := range dev.polls[1:] {
					require.GreaterOrEqual(t, limit, 5*time.Microsecond)
					require.LessOrEqual(t, limit, 10*time.Microsecond)
				}
			}
			require.NoError(t, l.Close())
			require.EqualValues(t, 2, l.Stats().LateCompletions, "the completions that PollSpin found are handled")
		})
	}
}

// TestEngineSpinsInsideProvider checks that a loop that an engine runs also waits with
// PollSpin.
func TestEngineSpinsInsideProvider(t *testing.T) {
	p := openSoft(t, 1)
	devices, err := p.Devices()
	require.NoError(t, err)
	dev := &spinDevice{Device: devices[0], spin: afterThree()}
	e, err := reactor.New(spinProvider{p, dev}, &hooks{boot: func(l *reactor.Loop) error {
		b, err := l.Lease(dev)
		b.Release()
		return err
	}}, &reactor.Config{Idle: reactor.IdleBusy})
	require.NoError(t, err)
	require.NoError(t, e.Start())
	await(t, func() bool { return e.Stats().LateCompletions > 2 })
	shutdown(t, e)

	found, spins := 0, 0
	for _, limit := range dev.polls {
		if limit == 0 {
			spins = 0
			continue
		}
		if spins++; spins == 3 {
			found++
		}
		require.LessOrEqual(t, spins, 3, "the turn after one with work must call Poll")
	}
	require.Positive(t, found)
}

func TestLoopDoesNotSpinInsideProvider(t *testing.T) {
	others, err := openSoft(t, 1).Devices()
	require.NoError(t, err)
	for _, test := range []struct {
		name  string
		cfg   reactor.Config
		other bool
		limit time.Duration
	}{
		{"event", reactor.Config{Idle: reactor.IdleEvent}, false, time.Millisecond},
		{"RunOnce without a timeout", reactor.Config{Idle: reactor.IdleBusy}, false, 0},
		{"two devices", reactor.Config{Idle: reactor.IdleBusy}, true, time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			dev := &spinDevice{spin: func([]verbs.WC) int { t.Error("PollSpin was called"); return 0 }}
			l := newSpinLoop(t, dev, &test.cfg)
			if test.other {
				require.NoError(t, reactor.OpenDevice(l, others[0]))
			}
			for range 10 {
				_, err := l.RunOnce(test.limit)
				require.NoError(t, err)
			}
			require.GreaterOrEqual(t, len(dev.polls), 10)
		})
	}
}

// TestClockAfterSpinInsideProvider checks that the loop reads its clock in the turn
// after a call of PollSpin, so that timers fire.
func TestClockAfterSpinInsideProvider(t *testing.T) {
	const long = 2 * time.Millisecond
	spins := 0
	dev := &spinDevice{spin: func([]verbs.WC) int {
		spins++
		for begin := time.Now(); time.Since(begin) < long; {
		}
		return 0
	}}
	l := newSpinLoop(t, dev, &reactor.Config{Idle: reactor.IdleBusy})
	l.After(long, func() {})
	n, err := l.RunOnce(testTimeout)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.LessOrEqual(t, spins, 2)
}

// TestFatalDeviceEvent checks that the engine does not end after a fatal event of a
// device, and that the loop can sleep.
func TestFatalDeviceEvent(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, w.Close()) // the end of the pipe keeps r readable
	calls, failed := 0, errors.New("device failed")
	dev := &spinDevice{asyncFD: int(r.Fd()), async: func(ev *verbs.AsyncEvent) (bool, error) {
		if calls++; calls > 1 {
			return false, failed
		}
		ev.Type = verbs.AsyncDeviceFatal
		return true, nil
	}}
	l := newSpinLoop(t, dev, nil)
	require.Equal(t, 1, calls)
	dev.arm = failed
	busy, err := l.Arm()
	require.NoError(t, err)
	require.False(t, busy)
	require.NoError(t, l.Close())
	require.NoError(t, l.Engine().Wait())
}
