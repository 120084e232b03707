//go:build linux

package cmtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Party is one side of a connection. It has a Manager and a Device.
type Party struct {
	*cmside.Side
	M      *connmgr.Manager
	Dev    *Device
	TC     *connmgr.Channel // event channel of the party
	Counts []*counters.Set  // counters of the device
}

// Open opens the event channel of a party. When the test has ended, nothing may be left.
func (s *Party) Open(t *testing.T) {
	t.Helper()
	leak.Watch(t)
	t.Cleanup(func() {
		if !t.Failed() {
			s.RequireNothingLeft(t)
		}
	})
	s.Side = cmside.Open(t, s, s.Dev)
}

// RequireNothingLeft requires that a party that was closed has no binding and no open
// channel.
func (s *Party) RequireNothingLeft(t *testing.T) {
	t.Helper()
	require.Zero(t, s.Dev.Channels)
	require.Empty(t, s.Dev.Bound)
}

// OpenChannel implements cm.Transport. It opens a channel and stores it in TC.
func (s *Party) OpenChannel() (cm.TransportChannel, error) {
	tc, err := s.M.OpenChannel()
	s.TC, _ = tc.(*connmgr.Channel)
	return tc, err
}

// AwaitCount waits until a counter has at least the given value. If an event arrives
// before the counter has this value, the test fails.
func (s *Party) AwaitCount(name string, value uint64) {
	s.T.Helper()
	for s.Counted()[name] < value {
		cmside.AwaitReadable(s.T, s.Channel.FD())
		s.Quiet()
	}
}

// A Counted maps the names of counters to their values. Counters with the value 0 are
// omitted.
type Counted map[string]uint64

// Counted returns the counters of the party that are not zero, without gauges.
func (s *Party) Counted() Counted {
	got := Counted{}
	for _, c := range counters.Sum(s.Counts) {
		if c.Value > 0 && !c.Gauge {
			got[c.Name] = c.Value
		}
	}
	return got
}

// Exchange simulates a message between two connected queue pairs. Like a device, it calls
// DataHeard on the receiving side.
func Exchange(t *testing.T, _ *Party, sender verbs.QP, to *Party, receiver verbs.QP) {
	t.Helper()
	sends, err := sender.Query()
	require.NoError(t, err)
	receives, err := receiver.Query()
	require.NoError(t, err)
	require.Equal(t, verbs.StateRTS, sends.State)
	require.Contains(t, []verbs.QPState{verbs.StateRTR, verbs.StateRTS}, receives.State)
	require.Equal(t, receiver.Num(), sends.DestQPN)
	require.Equal(t, sender.Num(), receives.DestQPN)
	require.Equal(t, sends.SQPSN, receives.RQPSN)
	if b := to.Dev.Binding(receiver); b != nil && b.Hearer != nil {
		b.Hearer.DataHeard()
	}
}

// RequireNoTimer requires that no timer of a channel is running.
func RequireNoTimer(t *testing.T, ch *connmgr.Channel) {
	t.Helper()
	running, _ := ch.Probe().Timers()
	require.Zero(t, running)
}

// A Clock is the clock of a channel in a test. Its time changes only in Advance().
type Clock struct{ Now time.Time }

// UseClock makes a Clock the clock of a channel, and returns it.
func UseClock(ch *connmgr.Channel) *Clock {
	c := &Clock{Now: time.Unix(1_000_000, 0)}
	ch.Probe().SetClock(func() time.Time { return c.Now })
	return c
}

// Advance advances the clock by d.
func (c *Clock) Advance(d time.Duration) { c.Now = c.Now.Add(d) }

// A WantQP has attributes that a queue pair must have.
type WantQP struct {
	Served, Outstanding, Retry, RNRRetry uint8
	Peer                                 *cm.ID
}

// RequireQP requires that a queue pair has the attributes that were negotiated.
func RequireQP(t *testing.T, qp verbs.QP, want WantQP) {
	t.Helper()
	attr, err := qp.Query()
	require.NoError(t, err)
	require.Equal(t, want.Served, attr.MaxDestRdAtomic)
	require.Equal(t, want.Outstanding, attr.MaxRdAtomic)
	require.Equal(t, want.Retry, attr.RetryCount)
	require.Equal(t, want.RNRRetry, attr.RNRRetry)
	require.Equal(t, want.Peer.QP().Num(), attr.DestQPN)
	require.EqualValues(t, connmgr.PacketLifetime+1, attr.Timeout)
	require.EqualValues(t, cm.DefaultMinRNRTimer, attr.MinRNRTimer)
	require.NotZero(t, attr.Access&verbs.AccessRemoteWrite)
	require.Equal(t, want.Served > 0, attr.Access&verbs.AccessRemoteRead != 0)
	require.Equal(t, want.Served > 0, attr.Access&verbs.AccessRemoteAtomic != 0)
}

// EachPortSpace calls test for both port spaces.
func EachPortSpace(t *testing.T, test func(t *testing.T, ps cm.PortSpace)) {
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		t.Run(ps.String(), func(t *testing.T) { test(t, ps) })
	}
}
