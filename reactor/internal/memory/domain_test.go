package memory

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestDomains checks that a device has one domain, and that Close closes all domains.
func TestDomains(t *testing.T) {
	one, two := &memorytest.Device{}, &memorytest.Device{Refuse: errors.New("no room")}
	var s Domains
	d, err := s.Of(one)
	require.NoError(t, err)
	again, err := s.Of(one)
	require.NoError(t, err)
	require.Same(t, d, again)
	_, err = s.Of(two)
	require.ErrorIs(t, err, two.Refuse)
	two.Refuse = nil
	other, err := s.Of(two)
	require.NoError(t, err)
	require.Equal(t, 1, other.Index)
	require.Equal(t, []*Domain{d, other}, s.All())

	one.PDs[0].Refuse = errors.New("busy")
	require.ErrorIs(t, s.Close(), one.PDs[0].Refuse)
	require.True(t, two.PDs[0].Closed)
	require.NoError(t, s.Close())
	_, err = s.Of(one)
	require.ErrorIs(t, err, verbs.ErrClosed)
}
