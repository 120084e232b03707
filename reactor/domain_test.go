package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fakeDevice is a device that has protection domains only.
type fakeDevice struct {
	verbs.Device
	name   string
	refuse error // result of AllocPD
	pds    []*fakePD
}

func (d *fakeDevice) AllocPD() (verbs.PD, error) {
	if d.refuse != nil {
		return nil, d.refuse
	}
	d.pds = append(d.pds, &fakePD{})
	return d.pds[len(d.pds)-1], nil
}

// TestDomains checks that a device has one domain, and that close closes all domains.
func TestDomains(t *testing.T) {
	one, two := &fakeDevice{name: "one"}, &fakeDevice{name: "two", refuse: errors.New("no room")}
	var s domains
	d, err := s.of(one)
	require.NoError(t, err)
	again, err := s.of(one)
	require.NoError(t, err)
	require.Same(t, d, again)
	_, err = s.of(two)
	require.ErrorIs(t, err, two.refuse)
	two.refuse = nil
	other, err := s.of(two)
	require.NoError(t, err)
	require.Equal(t, 1, other.index)
	require.Equal(t, []*domain{d, other}, s.all())

	one.pds[0].refuse = errors.New("busy")
	require.ErrorIs(t, s.close(), one.pds[0].refuse)
	require.True(t, two.pds[0].closed)
	require.NoError(t, s.close())
	_, err = s.of(one)
	require.ErrorIs(t, err, ErrClosed)
}
