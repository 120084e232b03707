//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A new region does not get a closed region's key.
func TestKeysAreNotReused(t *testing.T) {
	d := openDevice(t, nil)
	pd, err := d.AllocPD()
	require.NoError(t, err)
	last := uint32(0)
	for range 300 {
		mr, err := pd.Alloc(&verbs.AllocAttr{Size: 8, Access: verbs.AccessAll})
		require.NoError(t, err)
		require.NotEqual(t, last, mr.RKey())
		require.NotZero(t, mr.RKey())
		last = mr.RKey()
		require.NoError(t, mr.Close())
	}
	require.NoError(t, pd.Close())
}

// After a region is closed, requests that use its memory fail on every goroutine.
func TestMRClosedUnderTraffic(t *testing.T) {
	d := openDevice(t, &Config{})
	for range 30 {
		a, b := qptest.NewPair(t, d, verbs.ProgressAuto)
		for i := range 16 {
			b.Recv(uint64(i), i*(64<<10), 64<<10)
		}
		for i := range 16 {
			_, _ = a.QP.PostSend([]verbs.SendWR{{ID: uint64(i), Opcode: verbs.OpSend, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 64<<10)}}})
		}
		require.NoError(t, a.MR.Close())
		require.NoError(t, b.MR.Close())
		a.Close()
		b.Close()
	}
}

func TestMissingAttributes(t *testing.T) {
	d := openDevice(t, nil)
	p, err := d.AllocPD()
	require.NoError(t, err)
	_, alloc := p.Alloc(nil)
	_, qp := p.CreateQP(nil)
	_, srq := p.CreateSRQ(nil)
	_, ah := p.CreateAH(nil)
	_, cq := d.CreateCQ(nil)
	for _, err := range []error{alloc, qp, srq, ah, cq} {
		require.ErrorAs(t, err, new(*verbs.ParamError))
	}
	require.NoError(t, p.Close())
}
