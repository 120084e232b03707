package reactor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A busyProvider has event channels that report events of their last ID without end.
type busyProvider struct {
	cm.Provider
	busy bool
}

func (p *busyProvider) OpenChannel() (cm.TransportChannel, error) {
	ch, err := p.Provider.OpenChannel()
	return &busyChannel{TransportChannel: ch, p: p}, err
}

type busyChannel struct {
	cm.TransportChannel
	p  *busyProvider
	id cm.TransportID
}

func (c *busyChannel) NewID(ps cm.PortSpace) (id cm.TransportID, err error) {
	c.id, err = c.TransportChannel.NewID(ps)
	return c.id, err
}

func (c *busyChannel) Next(ev *cm.TransportEvent) (bool, error) {
	if !c.p.busy || c.id == nil {
		return c.TransportChannel.Next(ev)
	}
	*ev = cm.TransportEvent{Type: cm.AddrChange, ID: c.id}
	return true, nil
}

// TestEventsDoNotProlongOpening checks that a dial times out although events arrive
// without end. The timer of the dial fires only once in a turn, so the dial does not fail
// in the first turn after its time limit.
func TestEventsDoNotProlongOpening(t *testing.T) {
	var failed error
	p := &busyProvider{Provider: openSoft(t, 1)}
	l, err := reactor.NewLoop(p, &hooks{dialError: func(_ *reactor.DialOptions, err error) { failed = err }},
		&reactor.Config{ConnectTimeout: time.Hour})
	require.NoError(t, err)
	server := newLoop(t, &hooks{}, nil)
	require.NoError(t, l.Dial(listen(t, server.Engine()), nil))
	drive(t, func() bool { return reactor.OpeningConns(l) == 1 }, l)
	p.busy = true
	inTurn(t, l, func() {
		reactor.AdvanceClock(l, 2*time.Hour)
		for range 4 {
			l.After(0, func() {}) // l.After makes the loop read its clock
		}
	})
	require.NoError(t, failed)
	for range 1000 {
		_, err := l.RunOnce(0)
		require.NoError(t, err)
	}
	require.ErrorIs(t, failed, cm.ErrTimedOut)
	p.busy = false
	require.NoError(t, l.Close())
}
