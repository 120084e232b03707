//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// The error of closing a device names the open objects.
func TestCloseNamesOpenObjects(t *testing.T) {
	p, err := Open(nil)
	require.NoError(t, err)
	devices, err := p.Devices()
	require.NoError(t, err)
	pd, err := devices[0].AllocPD()
	require.NoError(t, err)
	cq, err := devices[0].CreateCQ(&verbs.CQAttr{Depth: 1})
	require.NoError(t, err)
	err = p.Close()
	require.ErrorIs(t, err, verbs.ErrBusy)
	require.ErrorContains(t, err, "open objects of the device: 1 PD, 1 CQ")
	require.NoError(t, cq.Close())
	require.NoError(t, pd.Close())
	require.NoError(t, p.Close())
}

// Posting to a receive queue of length 0 fails with a *verbs.ParamError.
// verbs.ErrQueueFull would mean that the caller can try again later.
func TestPostToReceiveQueueOfLengthZero(t *testing.T) {
	q := newRecvQueue(0, 1)
	_, err := q.post([]verbs.RecvWR{{ID: 1}})
	require.NotErrorIs(t, err, verbs.ErrQueueFull)
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.ErrorContains(t, err, "MaxRecvWR of the QP is 0")
}
