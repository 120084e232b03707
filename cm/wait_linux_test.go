package cm_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// waitingID returns an ID that waits for AddrResolved. The channel fdCalls gets a value
// whenever Wait is about to sleep.
func waitingID(t *testing.T) (p *peer, fdCalls chan struct{}) {
	t.Helper()
	p = reach(t, cm.TCP, cm.StateResolvingAddr)
	return p, p.transportChannel.makeReadable(t)
}

// makeReadable gives the channel a descriptor that is readable while it has an event.
// Each call of FD sends a value to fdCalls.
func (c *fakeChannel) makeReadable(t *testing.T) (fdCalls chan struct{}) {
	t.Helper()
	event, err := fdevent.NewEvent()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, event.Close()) })
	c.fd, c.fdCalls = event.FD(), make(chan struct{}, 100)
	c.setReady = func(ready bool) {
		if ready {
			event.Signal()
		} else {
			event.Drain()
		}
	}
	return c.fdCalls
}

func (p *peer) pushResolved() {
	p.transportChannel.push(cm.TransportEvent{Type: cm.AddrResolved, ID: p.fake})
}

func TestWaitFindsEvent(t *testing.T) {
	p, fdCalls := waitingID(t)
	p.pushResolved()
	ev, err := p.channel.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, cm.AddrResolved, ev.Type)
	require.Empty(t, fdCalls, "Wait does not sleep if there is an event")
	require.NoError(t, ev.Ack())
}

// TestWaitSleeps checks that Wait sleeps again if the descriptor is readable without an
// event.
func TestWaitSleeps(t *testing.T) {
	p, fdCalls := waitingID(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		<-fdCalls
		p.transportChannel.setReady(true) // The descriptor is readable, but there is no event.
		<-fdCalls
		p.pushResolved()
	})
	ev, err := p.channel.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, cm.AddrResolved, ev.Type)
	require.Empty(t, fdCalls, "Wait has slept twice")
	require.NoError(t, ev.Ack())
	wg.Wait()
}

func TestWaitCanceled(t *testing.T) {
	p, fdCalls := waitingID(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-fdCalls
		cancel()
	}()
	_, err := p.channel.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	var op *verbs.OpError
	require.ErrorAs(t, err, &op)

	// If the context is done, the event stays in the channel.
	p.pushResolved()
	_, err = p.channel.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, cm.StateResolvingAddr, p.id.State())
	_, err = p.channel.Expect(ctx, cm.AddrResolved)
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.channel.Expect(t.Context(), cm.AddrResolved)
	require.NoError(t, err)
}

func TestWaitDeadline(t *testing.T) {
	p, _ := waitingID(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
	defer cancel()
	_, err := p.channel.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestWaitClosed checks that Close ends all calls of Wait before it closes the
// descriptor.
func TestWaitClosed(t *testing.T) {
	for range 100 {
		c, under := open(t)
		fdCalls := under.makeReadable(t)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := c.Wait(context.Background())
				if !errors.Is(err, verbs.ErrClosed) {
					t.Error(err)
				}
			})
		}
		<-fdCalls
		require.NoError(t, c.Close())
		wg.Wait()
		_, err := c.Wait(context.Background())
		require.ErrorIs(t, err, verbs.ErrClosed)
	}
}

// TestWaitBroken checks that Wait fails if the transport or the descriptor is broken.
func TestWaitBroken(t *testing.T) {
	p, _ := waitingID(t)
	p.transportChannel.fail = errBroken
	_, err := p.channel.Wait(t.Context())
	require.ErrorIs(t, err, errBroken)

	p, _ = waitingID(t)
	p.transportChannel.fd = math.MaxInt32 // not an open descriptor
	_, err = p.channel.Wait(t.Context())
	require.ErrorIs(t, err, unix.EBADF)

	p, _ = waitingID(t)
	var pipe [2]int
	require.NoError(t, unix.Pipe(pipe[:]))
	require.NoError(t, unix.Close(pipe[1]))
	p.transportChannel.fd = pipe[0]
	_, err = p.channel.Wait(t.Context())
	require.ErrorIs(t, err, unix.EIO)
	require.NoError(t, unix.Close(pipe[0]))
}

func TestExpect(t *testing.T) {
	p, _ := waitingID(t)
	p.pushResolved()
	ev, err := p.channel.Expect(t.Context(), cm.AddrResolved)
	require.NoError(t, err)
	require.Same(t, p.id, ev.ID)
	require.ErrorIs(t, ev.Ack(), verbs.ErrState, "Expect has acknowledged the event")

	require.NoError(t, p.id.ResolveRoute(time.Second))
	p.transportChannel.push(cm.TransportEvent{Type: cm.RouteError, ID: p.fake, Err: errBroken})
	ev, err = p.channel.Expect(t.Context(), cm.RouteResolved)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, cm.RouteError, ev.Type)

	require.NoError(t, p.id.ResolveRoute(time.Second))
	p.transportChannel.push(cm.TransportEvent{Type: cm.RouteResolved, ID: p.fake})
	ev, err = p.channel.Expect(t.Context(), cm.Established)
	require.ErrorIs(t, err, verbs.ErrState)
	require.EqualError(t, err, "rdma: cm expect established: wrong state: the event is route resolved")
	require.Equal(t, cm.RouteResolved, ev.Type)
	require.NoError(t, p.id.Close())
}

// TestExpectSkips checks that Expect skips events that change nothing.
func TestExpectSkips(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateDisconnected)
	for _, typ := range []cm.EventType{cm.TimewaitExit, cm.AddrChange, cm.TimewaitExit} {
		p.transportChannel.push(cm.TransportEvent{Type: typ, ID: p.fake})
	}
	_, err := p.channel.Expect(t.Context(), cm.AddrChange)
	require.NoError(t, err)
	_, err = p.channel.Expect(t.Context(), cm.TimewaitExit)
	require.NoError(t, err)
	require.NoError(t, p.id.Close())

	p = reach(t, cm.TCP, cm.StateEstablished)
	for _, typ := range []cm.EventType{cm.AddrChange, cm.Unreachable, cm.Disconnected} {
		p.transportChannel.push(cm.TransportEvent{Type: typ, ID: p.fake})
	}
	_, err = p.channel.Expect(t.Context(), cm.Disconnected)
	require.NoError(t, err)
	require.NoError(t, p.id.Close())

	p = reach(t, cm.TCP, cm.StateConnecting)
	p.transportChannel.push(cm.TransportEvent{Type: cm.Unreachable, ID: p.fake})
	_, err = p.channel.Expect(t.Context(), cm.Established)
	require.Error(t, err, "Unreachable ends the attempt to connect")
}
