package memory

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRegistrationParts checks the elements for ranges of a registration with parts of
// 100 bytes.
func TestRegistrationParts(t *testing.T) {
	memory, pd := make([]byte, 250), &memorytest.PD{}
	reg, err := registerParts(&Domain{PD: pd}, memory, verbs.AccessAll, false, 100)
	require.NoError(t, err)
	require.Equal(t, 3, pd.Open)
	for i := range reg.Parts {
		p := &reg.Parts[i]
		require.Same(t, &memory[100*i], &p.MR.Bytes()[0])
		p.Addr, p.LKey, p.RKey = uint64(1000*(i+1)), uint32(i), uint32(10+i)
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
		require.Equal(t, c.want, reg.AppendSGEs(nil, c.offset, c.length))
		p, at, n := reg.Find(c.offset, c.length)
		first := verbs.SGE{Addr: p.Addr + uint64(at), Length: uint32(n), LKey: p.RKey - 10}
		require.Equal(t, c.want[0], first)
	}
	require.Empty(t, reg.AppendSGEs(nil, 250, 0))
	require.NoError(t, reg.Close())
	require.Zero(t, pd.Open)
}

// TestRegistrationFails checks that a failed registration closes its first parts, and
// that a part that can not be closed stays.
func TestRegistrationFails(t *testing.T) {
	pd := &memorytest.PD{}
	d := &Domain{PD: &memorytest.LimitedPD{PD: pd, Left: 2}}
	_, err := registerParts(d, make([]byte, 250), 0, false, 100)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.Zero(t, pd.Open)

	reg, err := registerParts(&Domain{PD: pd}, make([]byte, 250), 0, false, 100)
	require.NoError(t, err)
	pd.Refuse = errors.New("bound")
	require.ErrorIs(t, reg.Close(), pd.Refuse)
	require.Len(t, reg.Parts, 3)
	pd.Refuse = nil
	require.NoError(t, reg.Close())
	require.Empty(t, reg.Parts)
}
