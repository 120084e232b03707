//go:build linux

package hostile_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// A churn is a client that connects again and again during an attack. It must lose
// nothing.
type churn struct {
	f      *fixture
	client *hostile.Process
	quiet  int // number of connections that it has opened before the attack
}

// quietDials is the number of connections that a churn opens before the attack, for
// comparison. Arbitrary.
const quietDials = 200

// churn starts a churn and waits until it has opened quietDials connections.
func (f *fixture) churn(s hostile.Spec) *churn {
	f.t.Helper()
	s.Messages, s.Seed, s.RecordDials = 1, 2, true
	client, _ := f.start(hostile.RoleClient, sameUser, s)
	c := &churn{f: f, client: client}
	f.eventually(func() bool { return c.tally().Opened >= quietDials }, "clients can not connect")
	c.quiet = len(c.tally().DialTimes)
	return c
}

func (c *churn) tally() hostile.Tally { return c.f.report(c.client).Tally }

// opened returns how many connections it has opened during the attack.
func (c *churn) opened() int { return len(c.tally().DialTimes) - c.quiet }

// finish is called after the attack. It waits for another connection, logs how long the
// connections took to open, and ends the client.
func (c *churn) finish() {
	t := c.f.t
	t.Helper()
	now := c.tally()
	c.f.eventually(func() bool { return c.tally().Opened > now.Opened }, "other clients can not connect")
	times := c.tally().DialTimes
	t.Logf("time to connect, p99: %v before the attack, and %v during %d connections",
		p99(times[:c.quiet]), p99(times[c.quiet:]), len(times)-c.quiet)
	note, err := c.client.Finish()
	require.NoError(t, err)
	require.Zero(t, note.Tally.Lost+note.Tally.Damaged+note.Tally.Failed, "%+v", note.Tally)
}

func p99(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)*99/100].Round(10 * time.Microsecond)
}
