package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fakeMW is a memory window.
type fakeMW struct {
	verbs.MW
	key    uint32
	refuse error // result of Close
	closed int   // number of calls of Close
}

func (w *fakeMW) RKey() uint32 { return w.key }

func (w *fakeMW) Close() error {
	w.closed++
	return w.refuse
}

// TestWindowSet checks how a key ends: by the peer, by a local invalidation, and with its
// region.
func TestWindowSet(t *testing.T) {
	var s windowSet
	require.False(t, s.givenBack(0x100))
	require.NoError(t, s.closeAll())
	mws := []*fakeMW{{key: 0x100}, {key: 0x200}, {key: 0x300, refuse: errors.New("busy")}}
	uses := make([]regionUse, 2)
	show := func(mw *fakeMW, u *regionUse) *window {
		w := s.add(mw)
		s.free, w.next = w.next, nil
		w.state, w.use, w.key = windowShown, u, verbs.IncRKey(w.key)
		w.outstanding++
		u.underWay++
		require.NoError(t, s.requestDone(verbs.OpBindMW, w.key, nil))
		return w
	}
	first := show(mws[0], &uses[0])
	require.False(t, s.givenBack(0x100), "the key has changed")
	require.True(t, s.givenBack(first.key))
	require.False(t, s.givenBack(first.key), "a second time")
	require.Zero(t, uses[0].underWay)
	require.Same(t, first, s.free)

	second := show(mws[1], &uses[0])
	second.state = windowHiding
	second.outstanding++
	require.NoError(t, s.closeOf(&uses[0]), "a request is outstanding")
	require.Zero(t, mws[1].closed)
	require.NoError(t, s.requestDone(verbs.OpLocalInv, second.key, nil))
	require.Same(t, second, s.free)
	require.Zero(t, uses[0].underWay)

	show(mws[2], &uses[1])
	require.Equal(t, mws[2].refuse, s.closeOf(&uses[1]))
	require.Zero(t, uses[1].underWay)
	require.NoError(t, s.closeAll())
	require.Equal(t, []int{1, 1, 1}, []int{mws[0].closed, mws[1].closed, mws[2].closed})
}
