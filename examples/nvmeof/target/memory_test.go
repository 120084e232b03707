package target_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// TestMemoryOfEndedQueues checks that a queue that ends gives all memory of the loop
// back, also if some of its commands have memory and others wait for memory.
func TestMemoryOfEndedQueues(t *testing.T) {
	paths(t, func(t *testing.T, path soft.Path) {
		const depth, size = 128, 64 << 10 // twice the memory of the target
		f := start(t, path, nil)
		for range 4 {
			c, err := f.host.Connect(t.Context(), f.listener.Addr(), subsystem)
			require.NoError(t, err)
			require.NoError(t, c.OpenQueues(t.Context(), 1, depth))
			q := c.IO[0]
			require.NoError(t, q.Post(func() {
				for i := range depth {
					r := initiator.Transfer(nvme.IOWrite, 1, 0, size/blockSize, reactor.Piece{})
					nvme.Command(r.Command[:]).SetFlags()
					nvme.Command(r.Command[:]).SetID(uint16(i))
					sglOf(r).SetKeyed(nvme.SGLKeyed, 0, size, 0xDEADBEEF)
					_ = q.SendRaw(r.Command[:])
				}
			}))
			<-q.Ended()
		}
		// One command needs a quarter of the memory of the target.
		c := f.connect(1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out := reactor.Piece{Region: f.memory, Length: 1 << 20}
		for range 8 {
			_, err := c.IO[0].Do(ctx, initiator.Transfer(nvme.IOWrite, 1, 0, out.Length/blockSize, out))
			require.NoError(t, err)
		}
		require.NoError(t, c.Close(t.Context()))
	})
}
