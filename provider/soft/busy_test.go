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
