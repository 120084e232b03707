package cm_test

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A tally counts the events of each ID.
type tally struct {
	mu     sync.Mutex
	counts map[*cm.ID]int
}

func (c *tally) drain(from *cm.EventChannel) {
	for ev, ok, _ := from.Next(); ok; ev, ok, _ = from.Next() {
		c.mu.Lock()
		c.counts[ev.ID]++
		c.mu.Unlock()
		_ = ev.Ack()
	}
}

// TestConcurrentMigrate checks that no event is lost while IDs move between channels.
func TestConcurrentMigrate(t *testing.T) {
	for range 20 {
		transport := &fakeTransport{}
		var channels []*cm.EventChannel
		for range 3 {
			c, err := cm.OpenChannel(transport)
			require.NoError(t, err)
			channels = append(channels, c)
		}
		const ids = 16
		got := tally{counts: make(map[*cm.ID]int)}
		var wg sync.WaitGroup
		for i := range ids {
			id, err := channels[0].NewID(cm.TCP)
			require.NoError(t, err)
			require.NoError(t, id.ResolveAddr(netip.AddrPort{}, remote, time.Second))
			under := transport.channels[0]
			under.push(cm.TransportEvent{Type: cm.AddrResolved, ID: under.ids[i]})
			wg.Go(func() { _ = id.Migrate(channels[1]) })
			wg.Go(func() { _ = id.Migrate(channels[2]) })
			wg.Go(func() { _, _ = id.SetTOS(1), id.LocalAddr() })
			wg.Go(func() { got.drain(channels[i%3]) })
		}
		wg.Wait()
		for _, c := range channels {
			got.drain(c)
		}
		require.Len(t, got.counts, ids, "an event was lost")
		for id, n := range got.counts {
			require.Equal(t, 1, n)
			require.Equal(t, cm.StateAddrResolved, id.State())
			require.NoError(t, id.Close())
		}
		for _, c := range channels {
			require.NoError(t, c.Close())
		}
	}
}

// TestConcurrentClose checks that a channel is not closed during Next. If it were
// closed, the fake transport would panic.
func TestConcurrentClose(t *testing.T) {
	for range 200 {
		p := reach(t, cm.TCP, cm.StateConnecting)
		p.transportChannel.push(cm.TransportEvent{Type: cm.Established, ID: p.fake})
		var wg sync.WaitGroup
		started := make(chan struct{})
		wg.Go(func() {
			for ev, ok, err := p.channel.Next(); err == nil; ev, ok, err = p.channel.Next() {
				if ok {
					close(started)
					_ = ev.Ack()
				}
			}
		})
		<-started
		// Close succeeds when the other goroutine has acknowledged the event.
		for err := verbs.ErrBusy; err != nil; err = p.id.Close() {
			require.ErrorIs(t, err, verbs.ErrBusy)
		}
		require.NoError(t, p.channel.Close())
		wg.Wait()
	}
}
