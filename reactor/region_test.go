package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestRegionSet checks the list of a loop's regions. A region that is closed leaves the
// list. closeAll closes the others.
func TestRegionSet(t *testing.T) {
	pd := &fakePD{}
	d := &loopDevice{loop: &Loop{cfg: &Config{}}, domain: &domain{pd: pd}}
	first, err := d.alloc(8, verbs.AccessAll)
	require.NoError(t, err)
	second, err := d.alloc(8, verbs.AccessAll)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, first.Addr())
	require.EqualValues(t, 7, first.LKey())

	pd.refuse = errors.New("busy")
	require.ErrorIs(t, second.Close(), pd.refuse)
	require.Len(t, d.regions.open, 2, "a region that could not be closed stays")
	pd.refuse = nil
	require.NoError(t, second.Close())
	require.Len(t, d.regions.open, 1)
	require.NoError(t, d.regions.closeAll())
	require.Zero(t, pd.open)
	require.Empty(t, d.regions.open)
}

// TestRegionCanDiscard checks that a region implements verbs.Discarder only if its
// memory can be returned to the system.
func TestRegionCanDiscard(t *testing.T) {
	var set regionSet
	_, ok := set.add(&fakeMR{}).(verbs.Discarder)
	require.False(t, ok)
	mr := set.add(&pagedMR{fakeMR: &fakeMR{pd: &fakePD{}}})
	_, ok = mr.(verbs.Discarder)
	require.True(t, ok)
	require.NoError(t, mr.Close())
	require.Len(t, set.open, 1)
}
