//go:build linux

package reactor_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A removalProvider is a provider that can report to a listener that its device was
// removed.
type removalProvider struct {
	*soft.Provider
	listening *removalChannel // channel on which NewID was last called
}

func (p *removalProvider) OpenChannel() (cm.TransportChannel, error) {
	ch, err := p.Provider.OpenChannel()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	return &removalChannel{TransportChannel: ch, p: p, fd: fd}, err
}

type removalChannel struct {
	cm.TransportChannel
	p  *removalProvider
	fd int // descriptor that is always readable, so the loop always calls Next

	ids      []cm.TransportID
	removals []cm.TransportID // IDs for which Next will report cm.DeviceRemoval
}

func (c *removalChannel) FD() int { return c.fd }

func (c *removalChannel) Close() error {
	return errors.Join(unix.Close(c.fd), c.TransportChannel.Close())
}

func (c *removalChannel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	id, err := c.TransportChannel.NewID(ps)
	c.ids, c.p.listening = append(c.ids, id), c
	return id, err
}

func (c *removalChannel) Next(ev *cm.TransportEvent) (bool, error) {
	if len(c.removals) == 0 {
		return c.TransportChannel.Next(ev)
	}
	*ev = cm.TransportEvent{Type: cm.DeviceRemoval, ID: c.removals[0]}
	c.removals = c.removals[1:]
	return true, nil
}

// TestListenerOfRemovedDevice checks that the removal of a listener's device calls
// OnListenError once. Then the address can be used again.
func TestListenerOfRemovedDevice(t *testing.T) {
	p := &removalProvider{Provider: openSoft(t)}
	var reported []*reactor.Listener
	var log logged
	loop, err := reactor.NewLoop(p, &hooks{listenError: func(ln *reactor.Listener, err error) {
		require.ErrorIs(t, err, reactor.ErrDeviceRemoved)
		reported = append(reported, ln)
		reactor.BaseHandler{}.OnListenError(ln, err)
	}}, log.config(reactor.Config{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, loop.Close()) }()

	lost, err := loop.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	closed, err := loop.Engine().Listen(loopback, nil)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	kept, err := loop.Engine().Listen(loopback, nil)
	require.NoError(t, err)

	p.listening.removals = p.listening.ids[:1]
	drive(t, func() bool { return len(reported) > 0 }, loop)
	require.Equal(t, []*reactor.Listener{lost}, reported)
	log.want(t, "level=ERROR", "a listener was closed", lost.Addr().String(), "removed")
	require.NoError(t, lost.Close())
	again, err := loop.Engine().Listen(lost.Addr(), nil)
	require.NoError(t, err, "the address is free")
	require.NoError(t, again.Close())
	require.NoError(t, kept.Close())
}
