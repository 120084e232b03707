package reactor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor/internal/memorytest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// newFakeEngine returns an engine that was not started, and that uses two devices.
func newFakeEngine(t *testing.T) (e *Engine, pds [2]*memorytest.PD) {
	e = &Engine{cfg: &Config{}}
	e.loops = []*Loop{{engine: e}, {engine: e, index: 1}}
	for i := range pds {
		dev := &memorytest.Device{}
		_, err := e.domains.Of(dev)
		require.NoError(t, err)
		pds[i] = dev.PDs[0]
	}
	return e, pds
}

// TestRegionOnSeveralDevices checks that a region is registered on the devices in use at
// once, and on a later device when it is needed.
func TestRegionOnSeveralDevices(t *testing.T) {
	e, pds := newFakeEngine(t)
	registered, err := e.Register(make([]byte, 100), 0)
	require.NoError(t, err)
	allocated, err := e.Alloc(100, 0)
	require.NoError(t, err)
	require.Equal(t, [2]int{2, 2}, [2]int{pds[0].Open, pds[1].Open})

	later := &memorytest.Device{}
	d, err := e.domains.Of(later)
	require.NoError(t, err)
	require.Zero(t, later.PDs[0].Open)
	use := &registered.uses[1]
	for range 2 {
		reg, err := use.on(d)
		require.NoError(t, err)
		require.Len(t, reg.Parts, 1)
		require.Equal(t, 1, later.PDs[0].Open)
	}
	require.NoError(t, allocated.Close())
	require.NoError(t, registered.Close())
	require.Equal(t, [3]int{}, [3]int{pds[0].Open, pds[1].Open, later.PDs[0].Open})
	_, err = registered.on(d)
	require.ErrorIs(t, err, ErrClosed)
	require.Empty(t, e.regions.open)
}

// TestRegionThatOneDeviceRefuses checks that a region is registered on all devices in use
// or on none.
func TestRegionThatOneDeviceRefuses(t *testing.T) {
	e, pds := newFakeEngine(t)
	e.domains.All()[1].PD = &memorytest.LimitedPD{PD: pds[1]}
	for _, create := range []func() (*Region, error){
		func() (*Region, error) { return e.Register(make([]byte, 100), 0) },
		func() (*Region, error) { return e.Alloc(100, 0) },
	} {
		_, err := create()
		require.ErrorIs(t, err, verbs.ErrNoResources)
	}
	require.Zero(t, pds[0].Open)
	require.Zero(t, e.regions.bytes.Load())
	require.Empty(t, e.regions.open)
}

// TestRegionThatCanNotBeClosed checks that Close returns the error of a device, and that
// the end of the engine tries again.
func TestRegionThatCanNotBeClosed(t *testing.T) {
	e, pds := newFakeEngine(t)
	r, err := e.Alloc(100, 0)
	require.NoError(t, err)
	bound := errors.New("bound")
	pds[1].Refuse = bound
	require.ErrorIs(t, r.Close(), bound)
	require.ErrorIs(t, r.Close(), bound)
	require.Equal(t, 1, pds[0].Open, "the memory stays while a device uses it")
	require.EqualValues(t, 100, e.regions.bytes.Load())
	pds[1].Refuse = nil
	require.NoError(t, e.regions.closeAll())
	require.Equal(t, [2]int{}, [2]int{pds[0].Open, pds[1].Open})
	require.Zero(t, e.regions.bytes.Load())
}
