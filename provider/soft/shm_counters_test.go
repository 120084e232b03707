//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The local path counts messages without a receive buffer, and requests that fail
// because the peer does not acknowledge them.
func TestCountersOfTheLocalPath(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	a.connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 2 })
	b.connect(a, nil)
	a.post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(a.mr, 0, 1)}})
	require.Equal(t, verbs.StatusRNRRetryExcErr, a.wait(1, b)[0].Status)
	want := map[string]uint64{"rcvd_rnr_err": 3, "send_rnr_err": 3, "out_of_buffer": 3, "retry_rnr_exceeded_err": 1}
	require.Equal(t, want, d.counted())

	x, y := newEnd(t, d, 0, verbs.ProgressManual), newEnd(t, d, 1, verbs.ProgressManual)
	x.connect(y, func(attr *verbs.QPAttr) { attr.RetryCount, attr.Timeout = 0, 1 })
	y.connect(x, nil)
	require.NoError(t, y.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	x.post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(x.mr, 0, 1)}})
	require.Equal(t, verbs.StatusRetryExcErr, x.wait(1)[0].Status)
	want["retry_exceeded_err"] = 1
	require.Equal(t, want, d.counted())
}
