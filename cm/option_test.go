package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		set    func(id *cm.ID) error
		option cm.Option
		value  int
	}{
		{func(id *cm.ID) error { return id.SetTOS(255) }, cm.OptionTOS, 255},
		{func(id *cm.ID) error { return id.SetReuseAddr(true) }, cm.OptionReuseAddr, 1},
		{func(id *cm.ID) error { return id.SetReuseAddr(false) }, cm.OptionReuseAddr, 0},
		{func(id *cm.ID) error { return id.SetAFOnly(true) }, cm.OptionAFOnly, 1},
		{func(id *cm.ID) error { return id.SetAFOnly(false) }, cm.OptionAFOnly, 0},
		{func(id *cm.ID) error { return id.SetAckTimeout(0) }, cm.OptionAckTimeout, 0},
		{func(id *cm.ID) error { return id.SetAckTimeout(31) }, cm.OptionAckTimeout, 31},
		{func(id *cm.ID) error { return id.SetMinRNRTimer(0) }, cm.OptionMinRNRTimer, 0},
		{func(id *cm.ID) error { return id.SetMinRNRTimer(31) }, cm.OptionMinRNRTimer, 31},
	} {
		p := newPeer(t, cm.TCP)
		p.fake.value = -1
		require.NoError(t, tt.set(p.id))
		require.Equal(t, tt.option, p.fake.option)
		require.Equal(t, tt.value, p.fake.value)
	}
}

func TestOptionChecks(t *testing.T) {
	p := newPeer(t, cm.TCP)
	requireParam(t, p.id.SetAckTimeout(32), "ACK timeout code", 32, 31)
	requireParam(t, p.id.SetMinRNRTimer(32), "minimum RNR timer code", 32, 31)
	require.Empty(t, p.fake.calls)

	u := newPeer(t, cm.UDP)
	err := u.id.SetAckTimeout(14)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.EqualError(t, err, "rdma: cm set ACK_TIMEOUT: ACK_TIMEOUT: not supported: datagrams are not acknowledged")
	require.Empty(t, u.fake.calls)
}
