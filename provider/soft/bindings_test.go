//go:build linux

package soft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qptest"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shmpath"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func newTestBindings() *bindings {
	geom := shm.Geometry{Slots: shm.MinRingSlots, Bytes: shm.MinRingBytes}
	return newBindings(shm.NewEnds(geom, newMaps(), 0, nil), 2)
}

// A queue pair can take the End of its binding once. An End that was not taken is
// released with the binding.
func TestBindingWithEnd(t *testing.T) {
	before := peerproc.OpenDescriptors(t)
	tab := newTestBindings()
	a, b, err := tab.ends.UsePair(0, 1)
	require.NoError(t, err)
	peer := access.LocalSource(5, 6)
	mine := &connmgr.Binding{End: a, Peer: peer}
	tab.add(2, mine, false)
	local, wire := tab.path(2)
	require.True(t, local)
	require.False(t, wire)
	end, err := tab.take(2, 3)
	require.NoError(t, err)
	require.Equal(t, &shmpath.End{End: a, Source: peer}, end)
	local, wire = tab.path(2)
	require.False(t, local || wire, "the end was taken, so the binding names no path any more")
	tab.remove(2, mine)
	end.Release()

	theirs := &connmgr.Binding{End: b}
	tab.add(3, theirs, false)
	tab.remove(3, mine)
	local, _ = tab.path(3)
	require.True(t, local, "remove removes only the given binding")
	tab.remove(3, theirs)
	require.Equal(t, before, peerproc.OpenDescriptors(t))
}

func TestBindingOfTheWirePath(t *testing.T) {
	tab := newTestBindings()
	heard := 0
	tab.dataHeard(2)
	require.Zero(t, tab.flow(2))
	first := &connmgr.Binding{Flow: connmgr.CreditFlow{Sends: true}, Hearer: hearer(func() { heard++ })}
	tab.add(2, first, false)
	local, wire := tab.path(2)
	require.False(t, local)
	require.True(t, wire)
	require.Equal(t, connmgr.CreditFlow{Sends: true}, tab.flow(2))
	tab.dataHeard(2)
	require.Equal(t, 1, heard)

	second := &connmgr.Binding{Flow: connmgr.CreditFlow{Receives: true}}
	tab.add(2, second, false)
	tab.remove(2, first)
	require.Equal(t, connmgr.CreditFlow{Receives: true}, tab.flow(2), "the second binding has replaced the first one")
	tab.dataHeard(2)
	require.Equal(t, 1, heard)
	tab.remove(2, second)
	local, wire = tab.path(2)
	require.False(t, local || wire)
}

// Two queue pairs that connect without bindings get two Ends of the same memory.
func TestProvisionalEnds(t *testing.T) {
	before := peerproc.OpenDescriptors(t)
	tab := newTestBindings()
	mine, err := tab.take(2, 3)
	require.NoError(t, err)
	theirs, err := tab.take(3, 2)
	require.NoError(t, err)
	require.NotEqual(t, mine.Side, theirs.Side)
	require.False(t, tab.drop(2, 3), "the peer has taken the end")
	mine.Release()
	theirs.Release()

	again, err := tab.take(2, 3)
	require.NoError(t, err)
	require.True(t, tab.drop(2, 3))
	again.Release()
	last, err := tab.take(2, 4)
	require.NoError(t, err)
	last.Release()
	tab.close()
	require.Equal(t, before, peerproc.OpenDescriptors(t))
}

// Two queue pairs get two Ends of the same memory even if they call bindings.take at the
// same time.
func TestProvisionalEndsAtTheSameTime(t *testing.T) {
	before := peerproc.OpenDescriptors(t)
	tab := newTestBindings()
	mine, err := tab.take(2, 3)
	require.NoError(t, err)
	a, b, err := tab.ends.UsePair(0, 1)
	require.NoError(t, err)
	end, unused := tab.takeOrOffer(3, 2, a, b)
	require.NotEqual(t, mine.Side, end.Side)
	require.Equal(t, []*shm.End{a, b}, unused)
	require.Empty(t, tab.offered)
	for _, e := range append(unused, mine.End, end.End) {
		e.Release()
	}

	// An End that was offered to the peer is released when another one is offered.
	first, err := tab.take(2, 3)
	require.NoError(t, err)
	second, err := tab.take(2, 3)
	require.NoError(t, err)
	first.Release()
	second.Release()
	tab.close()
	require.Equal(t, before, peerproc.OpenDescriptors(t))
}

// newEqualEnds returns an end of each device. Both have the same queue pair number.
func newEqualEnds(t *testing.T, one, other *device) (a, b *qptest.End) {
	ends := make(map[uint32]*qptest.End)
	first, second := qptest.NewEnd(t, one, 0, verbs.ProgressManual), qptest.NewEnd(t, other, 0, verbs.ProgressManual)
	// There are 2^23 numbers, so 20,000 queue pairs of each device have an equal number with
	// the probability 1 - e^-47.
	for range 20_000 {
		a = first.More(1, nil)[0]
		ends[a.QP.Num()] = a
		b = second.More(1, nil)[0]
		if a = ends[b.QP.Num()]; a != nil {
			return a, b
		}
	}
	require.FailNow(t, "no equal numbers")
	return nil, nil
}

// Two queue pairs of different devices can have the same number. Connection management
// can connect them with bindings. Without a binding such a connection is refused,
// because it looks like a queue pair that is connected to itself.
func TestEqualNumbersOnTheLocalPath(t *testing.T) {
	a, b := newEqualEnds(t, openDevice(t, &Config{Path: PathLocal}), openDevice(t, &Config{Path: PathLocal}))
	dev := deviceOf(a.QP)
	mine, theirs, err := dev.ends.UsePair(a.QP.Shard.Slot, b.QP.Shard.Slot)
	require.NoError(t, err)
	require.NoError(t, cmEngine{dev}.Bind(a.QP.Num(), &connmgr.Binding{End: mine}))
	require.NoError(t, cmEngine{deviceOf(b.QP)}.Bind(b.QP.Num(), &connmgr.Binding{End: theirs}))
	a.Connect(b, nil)
	b.Connect(a, nil)
	b.Recv(5, 0, 100)
	a.Post(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, 100)}})
	require.EqualValues(t, 100, b.Wait(1, a)[0].ByteLen)
	require.Equal(t, verbs.StatusSuccess, a.Wait(1, b)[0].Status)

	_, err = dev.bindings.take(7, 7)
	var refused *verbs.FeatureError
	require.ErrorAs(t, err, &refused)
}

// A hearer calls a function for connmgr.DataHearer.
type hearer func()

func (h hearer) DataHeard() { h() }
