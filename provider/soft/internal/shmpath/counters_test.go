//go:build linux

package shmpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// The local path counts messages without a receive buffer, and requests that fail
// because the peer does not acknowledge them.
func TestCountersOfTheLocalPath(t *testing.T) {
	d := newMemoryDevice(t, memoryConfig{})
	a, b := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	a.Connect(b, func(attr *verbs.QPAttr) { attr.RNRRetry = 2 })
	b.Connect(a, nil)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 1)}})
	require.Equal(t, verbs.StatusRNRRetryExcErr, a.Wait(1, b)[0].Status)
	want := map[string]uint64{"rcvd_rnr_err": 3, "send_rnr_err": 3, "out_of_buffer": 3, "retry_rnr_exceeded_err": 1}
	require.Equal(t, want, d.Counted())

	x, y := qptest.NewEnd(t, d, 0, verbs.ProgressManual), qptest.NewEnd(t, d, 1, verbs.ProgressManual)
	x.Connect(y, func(attr *verbs.QPAttr) { attr.RetryCount, attr.Timeout = 0, 1 })
	y.Connect(x, nil)
	require.NoError(t, y.QP.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.AttrState))
	x.Post(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(x.MR, 0, 1)}})
	require.Equal(t, verbs.StatusRetryExcErr, x.Wait(1)[0].Status)
	want["retry_exceeded_err"] = 1
	require.Equal(t, want, d.Counted())
}
