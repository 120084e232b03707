//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// defaultAckTimeout is the code of the ACK timeout that connection management sets.
const defaultAckTimeout = 18

// Connections with the default ACK timeout and the largest retry count survive an outage
// of five seconds.
func TestWireOutage(t *testing.T) {
	const messages, size = 64, 4096
	s := newSim(t, 1, quietNet)
	a, b := s.newEnd(), s.newEnd()
	s.join(a, b, func(attr *verbs.QPAttr) {
		attr.Timeout, attr.RetryCount = defaultAckTimeout, verbs.MaxRetry
	})
	for _, e := range []*end{a, b} {
		for i := range messages {
			e.recv(uint64(i), endSize/2+i*size, size)
		}
	}
	for i := range messages {
		for n, e := range []*end{a, b} {
			e.mr.Bytes()[i*size] = byte(i + 100*n)
			e.post(verbs.SendWR{ID: uint64(1000 + i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(e.mr, i*size, size)}})
		}
	}
	for s.net.Stats.Delivered < 2*messages/3 {
		require.True(t, s.step())
	}
	s.net.Config.Drop = 1
	over := s.now + int64(5*time.Second)
	for s.now < over {
		require.True(t, s.step())
	}
	s.net.Config.Drop = 0
	s.settle()
	require.Less(t, s.now-over, int64(2*verbs.AckTimeout(defaultAckTimeout)), "the transfer continues within one timeout")
	for n, e := range []*end{a, b} {
		received := 0
		for _, wc := range e.wait(2 * messages) {
			require.Equal(t, verbs.StatusSuccess, wc.Status)
			if wc.Opcode == verbs.WCRecv {
				require.EqualValues(t, received, wc.ID)
				require.Equal(t, byte(received+100*(1-n)), e.mr.Bytes()[endSize/2+received*size])
				received++
			}
		}
		require.Equal(t, messages, received)
	}
}
