package cq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cq"
	"github.com/rdmaloop/rdmaloop/internal/testutil/faultcq"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A sleepDevice is a device in whose channels one can sleep, and whose CQs can be disarmed.
type sleepDevice struct {
	*faultcq.Device
	channel sleepChannel
	disarms int
}

type sleepChannel struct {
	verbs.CompChannel
	joined int
	err    error // result of Join and Sleep
}

type disarmCQ struct {
	verbs.CQ
	dev *sleepDevice
}

func (d *sleepDevice) CreateCompChannel(attr *verbs.CompChannelAttr) (verbs.CompChannel, error) {
	c, err := d.Device.CreateCompChannel(attr)
	d.channel.CompChannel = c
	return &d.channel, err
}

func (d *sleepDevice) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	plain := *attr
	plain.Channel = d.channel.CompChannel
	c, err := d.Device.CreateCQ(&plain)
	return disarmCQ{c, d}, err
}

func (c *sleepChannel) Join(fd int) error {
	c.joined = fd
	return c.err
}

func (c *sleepChannel) Sleep(timeout time.Duration) (work, input bool, err error) {
	return timeout > 0, timeout == 0, c.err
}

func (c disarmCQ) Disarm() bool {
	c.dev.disarms++
	return true
}

func TestSleepWithoutAbility(t *testing.T) {
	g, _ := newGroup(t, nil, nil)
	_, c := newQueue(t, g, 8)
	joined, err := g.Join(5)
	require.NoError(t, err)
	require.False(t, joined)
	_, _, err = g.Sleep(0)
	require.ErrorIs(t, err, verbs.ErrState)

	requireIdle(t, g)
	g.Disarm()
	require.True(t, c.Armed())
	requireIdle(t, g)
	require.EqualValues(t, 1, g.Stats().Arms, "the queue still counts as armed")
}

func TestSleepInChannel(t *testing.T) {
	dev := &sleepDevice{Device: faultcq.New(&faultcq.Script{})}
	g, err := cq.NewGroup(dev, nil)
	require.NoError(t, err)
	dev.channel.err = &verbs.FeatureError{Feature: "Join", Reason: errDevice}
	joined, err := g.Join(5)
	require.NoError(t, err)
	require.False(t, joined)
	dev.channel.err = errDevice
	_, err = g.Join(5)
	requireDeviceError(t, err, "join completion channel")

	dev.channel.err = nil
	joined, err = g.Join(6)
	require.NoError(t, err)
	require.True(t, joined)
	require.Equal(t, 6, dev.channel.joined)
	for _, timeout := range []time.Duration{0, 1} {
		work, input, err := g.Sleep(timeout)
		require.NoError(t, err)
		require.Equal(t, timeout > 0, work)
		require.Equal(t, timeout == 0, input)
	}
	dev.channel.err = errDevice
	_, _, err = g.Sleep(0)
	requireDeviceError(t, err, "sleep in completion channel")
}

func TestDisarm(t *testing.T) {
	dev := &sleepDevice{Device: faultcq.New(&faultcq.Script{})}
	g, err := cq.NewGroup(dev, nil)
	require.NoError(t, err)
	_, err = g.NewQueue(8)
	require.NoError(t, err)
	g.Disarm()
	require.Zero(t, dev.disarms, "the queue is not armed")
	for round := range 3 {
		requireIdle(t, g)
		g.Disarm()
		g.Disarm()
		require.Equal(t, round+1, dev.disarms)
	}
	require.EqualValues(t, 3, g.Stats().Arms, "a disarmed queue is armed again")
}
