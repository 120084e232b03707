//go:build linux

package rcpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// defaultAckTimeout is the code of the ACK timeout that connection management sets.
const defaultAckTimeout = 18

// Connections with the default ACK timeout and the largest retry count survive an outage
// of five seconds.
func TestWireOutage(t *testing.T) {
	const messages, size = 64, 4096
	s := newSim(t, 1, quietNet)
	a, b := s.NewEnd(), s.NewEnd()
	s.Join(a, b, func(attr *verbs.QPAttr) {
		attr.Timeout, attr.RetryCount = defaultAckTimeout, verbs.MaxRetry
	})
	for _, e := range []*qptest.End{a, b} {
		for i := range messages {
			e.Recv(uint64(i), qptest.EndSize/2+i*size, size)
		}
	}
	for i := range messages {
		for n, e := range []*qptest.End{a, b} {
			e.MR.Bytes()[i*size] = byte(i + 100*n)
			e.Post(verbs.SendWR{ID: uint64(1000 + i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.MR, i*size, size)}})
		}
	}
	for s.Net.Stats.Delivered < 2*messages/3 {
		require.True(t, s.Step())
	}
	s.Net.Config.Drop = 1
	over := s.Now + int64(5*time.Second)
	for s.Now < over {
		require.True(t, s.Step())
	}
	s.Net.Config.Drop = 0
	s.Settle()
	require.Less(t, s.Now-over, int64(2*verbs.AckTimeout(defaultAckTimeout)), "the transfer continues within one timeout")
	for n, e := range []*qptest.End{a, b} {
		received := 0
		for _, wc := range e.Wait(2 * messages) {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
			if wc.Opcode == verbs.WCRecv {
				require.EqualValues(t, received, wc.ID)
				require.Equal(t, byte(received+100*(1-n)), e.MR.Bytes()[qptest.EndSize/2+received*size])
				received++
			}
		}
		require.Equal(t, messages, received)
	}
}
