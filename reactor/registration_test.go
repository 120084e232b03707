package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRegistrationParts checks the elements for ranges of a registration with parts of
// 100 bytes.
func TestRegistrationParts(t *testing.T) {
	memory, pd := make([]byte, 250), &fakePD{}
	reg, err := registerParts(&domain{pd: pd}, &Region{memory: memory, access: verbs.AccessAll}, 100)
	require.NoError(t, err)
	require.Equal(t, 3, pd.open)
	for i := range reg.parts {
		p := &reg.parts[i]
		require.Same(t, &memory[100*i], &p.mr.Bytes()[0])
		p.addr, p.lkey, p.rkey = uint64(1000*(i+1)), uint32(i), uint32(10+i)
	}
	for _, c := range []struct {
		offset, length int
		want           []verbs.SGE
	}{
		{0, 100, []verbs.SGE{{Addr: 1000, Length: 100, LKey: 0}}},
		{99, 1, []verbs.SGE{{Addr: 1099, Length: 1, LKey: 0}}},
		{100, 1, []verbs.SGE{{Addr: 2000, Length: 1, LKey: 1}}},
		{99, 102, []verbs.SGE{{Addr: 1099, Length: 1, LKey: 0}, {Addr: 2000, Length: 100, LKey: 1}, {Addr: 3000, Length: 1, LKey: 2}}},
		{249, 1, []verbs.SGE{{Addr: 3049, Length: 1, LKey: 2}}},
	} {
		require.Equal(t, c.want, reg.appendSGEs(nil, c.offset, c.length))
		var pieces []RemotePiece
		for _, sge := range c.want {
			pieces = append(pieces, RemotePiece{Remote{Addr: sge.Addr, RKey: sge.LKey + 10}, int(sge.Length)})
		}
		require.Equal(t, pieces, reg.appendRemote(nil, c.offset, c.length))
	}
	require.Empty(t, reg.appendRemote(nil, 250, 0))
	require.NoError(t, reg.close())
	require.Zero(t, pd.open)
}

// TestRegistrationFails checks that a failed registration closes its first parts, and
// that a part that can not be closed stays.
func TestRegistrationFails(t *testing.T) {
	pd := &fakePD{}
	d := &domain{pd: &pdWithLimit{fakePD: pd, left: 2}}
	_, err := registerParts(d, &Region{memory: make([]byte, 250)}, 100)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.Zero(t, pd.open)

	reg, err := registerParts(&domain{pd: pd}, &Region{memory: make([]byte, 250)}, 100)
	require.NoError(t, err)
	pd.refuse = errors.New("bound")
	require.ErrorIs(t, reg.close(), pd.refuse)
	require.Len(t, reg.parts, 3)
	pd.refuse = nil
	require.NoError(t, reg.close())
	require.Empty(t, reg.parts)
}

// A pdWithLimit registers a limited number of regions.
type pdWithLimit struct {
	*fakePD
	left int
}

func (p *pdWithLimit) Register(b []byte, access verbs.Access) (verbs.MR, error) {
	if p.left == 0 {
		return nil, verbs.ErrNoResources
	}
	p.left--
	return p.fakePD.Register(b, access)
}

// TestUseQueue checks that uses leave the queue in the order in which they were added.
func TestUseQueue(t *testing.T) {
	var q useQueue
	uses := make([]regionUse, 5)
	added, ended := 0, 0
	for range 100 {
		for range 3 {
			uses[added%5].underWay++
			q.push(&uses[added%5])
			added++
		}
		for range 2 {
			u := &uses[ended%5]
			before := u.underWay
			q.end(1)
			require.Equal(t, before-1, u.underWay)
			ended++
		}
	}
	require.Len(t, q.ring, 128)
	q.end(added - ended)
	for i := range uses {
		require.Zero(t, uses[i].underWay)
	}
	for _, u := range q.ring {
		require.Nil(t, u)
	}
}
