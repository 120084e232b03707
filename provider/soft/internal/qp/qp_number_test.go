//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestNoFreeQPNumber checks that CreateQP fails if all queue pair numbers of a
// completion vector are in use.
func TestNoFreeQPNumber(t *testing.T) {
	d := newFakeHost(t, 1024)
	e := newFakeEnd(t, d, nil)
	other := &QP{}
	d.mu.Lock()
	for num := e.qp.Shard.Slot; num <= verbs.MaxQPNum; num += ShardsOf(d.Vectors) {
		if d.qps[num] == nil {
			d.qps[num] = other
		}
	}
	d.mu.Unlock()
	attr := &verbs.QPInitAttr{Type: verbs.QPTypeRC, SendCQ: e.cq, RecvCQ: e.cq, Caps: verbs.QPCaps{MaxSendWR: 1}}
	_, err := e.pd.CreateQP(attr)
	require.ErrorIs(t, err, verbs.ErrNoResources)

	d.mu.Lock()
	for num, q := range d.qps {
		if q == other {
			delete(d.qps, num)
		}
	}
	d.mu.Unlock()
	q, err := e.pd.CreateQP(attr)
	require.NoError(t, err)
	require.NoError(t, q.Close())
}
