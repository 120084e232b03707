package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// While the disk executes nothing, the host sends as many commands as the largest queue
// has places. Each of them finds a receive buffer: a host whose message gets an RNR NAK
// may fail.
func TestSlowDiskCausesNoRNRNAK(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		const depth, commands = 128, 512
		f := start(t, path, nil)
		proceed := make(chan struct{})
		f.disk.setHook(func(string, int64) error {
			<-proceed
			return nil
		})
		c, err := f.host.Connect(t.Context(), f.listener.Addr(), subsystem)
		require.NoError(t, err)
		require.NoError(t, c.OpenQueues(t.Context(), 1, depth))
		statuses := make(chan nvme.Status, commands)
		require.NoError(t, c.IO[0].Post(func() {
			for i := range commands {
				r := initiator.Transfer(nvme.IOWrite, 1, uint64(i), 1, reactor.Piece{})
				r.InCapsule = make([]byte, blockSize)
				r.Done = func(resp *nvme.Response, err error) {
					if err != nil {
						resp = &nvme.Response{Status: nvme.Aborted}
					}
					statuses <- resp.Status
				}
				c.IO[0].Submit(r)
			}
		}))
		// The admin queue is on another loop and answers. Its answers take longer than the
		// commands need to arrive.
		for range depth {
			_, err := c.Property(t.Context(), nvme.PropertyCSTS, 4)
			require.NoError(t, err)
		}
		require.Empty(t, statuses)
		close(proceed)
		for range commands {
			require.Equal(t, nvme.Success, <-statuses)
		}
		require.Zero(t, f.counter("send_rnr_err"))
		require.NoError(t, c.Close(t.Context()))
	})
}

// counter returns a counter of the target's device.
func (f *fixture) counter(name string) uint64 {
	devices, err := f.device.Devices()
	require.NoError(f, err)
	list, err := devices[0].Counters(1)
	require.NoError(f, err)
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	f.Fatalf("no counter %s", name)
	return 0
}

// TestBurstCausesNoRNRNAK checks that the commands of several hosts find receive buffers
// while the loops of the target do not run. Each queue sends as many as it has places.
func TestBurstCausesNoRNRNAK(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		const hosts, queues, depth = 3, 4, 128
		f := start(t, path, nil)
		var all []*initiator.Queue
		for i := range hosts {
			h := f.newHost(path, hostNQN, byte(2+i))
			c, err := h.Connect(t.Context(), f.listener.Addr(), subsystem)
			require.NoError(t, err)
			require.NoError(t, c.OpenQueues(t.Context(), queues, depth))
			all = append(all, c.IO...)
		}
		proceed, paused := make(chan struct{}), make(chan struct{})
		for i := range 2 {
			require.NoError(t, f.engine.Loop(i).Post(func() {
				paused <- struct{}{}
				<-proceed
			}))
			<-paused
		}
		statuses := make(chan nvme.Status, len(all)*depth)
		for _, q := range all {
			sent := make(chan struct{})
			require.NoError(t, q.Post(func() {
				for i := range depth {
					r := initiator.Transfer(nvme.IOWrite, 1, uint64(i), 1, reactor.Piece{})
					r.InCapsule = make([]byte, blockSize)
					r.Done = func(resp *nvme.Response, err error) {
						if err != nil {
							resp = &nvme.Response{Status: nvme.Aborted}
						}
						statuses <- resp.Status
					}
					q.Submit(r)
				}
				close(sent)
			}))
			<-sent
		}
		require.Empty(t, statuses)
		close(proceed)
		for range cap(statuses) {
			require.Equal(t, nvme.Success, <-statuses)
		}
		require.Zero(t, f.counter("send_rnr_err"))
		// On the wire path fewer commands arrive at once, so there only this check can fail.
		require.GreaterOrEqual(t, f.engine.Stats().BufferBytes, uint64(len(all)*depth*(nvme.CommandSize+4096)))
	})
}
