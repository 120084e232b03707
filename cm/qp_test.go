package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestCreateQP(t *testing.T) {
	for _, ps := range []cm.PortSpace{cm.TCP, cm.UDP} {
		p := routed(t, ps)
		require.Nil(t, p.id.QP())
		p.createQP()
		require.Equal(t, uint32(fakeQPNum), p.id.QP().Num())
		require.NoError(t, p.id.CloseQP())
		require.NoError(t, p.id.CloseQP())
		require.Nil(t, p.id.QP())
		p.createQP()
	}
}

func TestCreateQPChecks(t *testing.T) {
	p := routed(t, cm.TCP)
	p.fake.calls = nil
	with := func(change func(a *verbs.QPInitAttr)) *verbs.QPInitAttr {
		attr := qpAttr(cm.TCP)
		change(attr)
		return attr
	}
	requireParam(t, p.id.CreateQP(nil, qpAttr(cm.TCP)), "protection domain", 0, 0)
	requireParam(t, p.id.CreateQP(thePD, nil), "attributes", 0, 0)
	requireParam(t, p.id.CreateQP(thePD, with(func(a *verbs.QPInitAttr) { a.SendCQ = nil })), "send CQ", 0, 0)
	requireParam(t, p.id.CreateQP(thePD, with(func(a *verbs.QPInitAttr) { a.RecvCQ = nil })), "receive CQ", 0, 0)
	requireParam(t, p.id.CreateQP(thePD, qpAttr(cm.UDP)), "QP type", int64(verbs.QPTypeUD), int64(verbs.QPTypeRC))
	foreign := &fakePD{device: &struct{ verbs.Device }{}}
	require.ErrorIs(t, p.id.CreateQP(foreign, qpAttr(cm.TCP)), verbs.ErrForeign)
	require.Empty(t, p.fake.calls)

	p.fake.fail = errBroken
	require.ErrorIs(t, p.id.CreateQP(thePD, qpAttr(cm.TCP)), errBroken)
	require.Nil(t, p.id.QP())
	p.fake.fail = nil
	p.createQP()
}

// TestNoDevice checks that calls that need a device fail without one.
func TestNoDevice(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateBound)
	p.fake.device = nil
	err := p.id.CreateQP(thePD, qpAttr(cm.TCP))
	require.ErrorIs(t, err, verbs.ErrState)
	require.EqualError(t, err, "rdma: cm create QP: wrong state: the ID has no device")
	_, _, err = p.id.InitQPAttr(verbs.StateInit)
	require.ErrorIs(t, err, verbs.ErrState)

	p = routed(t, cm.TCP)
	p.fake.device = nil // This is the state after DeviceRemoval.
	require.ErrorIs(t, p.id.Connect(&cm.ConnParam{QPNum: 7}), verbs.ErrState)
	p = requested(t, cm.TCP, cm.MessageParam{})
	p.fake.device = nil
	require.ErrorIs(t, p.id.Accept(&cm.ConnParam{QPNum: 7}), verbs.ErrState)
	require.Empty(t, p.fake.calls)
}

func TestCloseQPBusy(t *testing.T) {
	p := routed(t, cm.TCP)
	p.createQP()
	qp := p.id.QP().(*fakeQP)
	qp.fail = verbs.ErrBusy
	require.ErrorIs(t, p.id.CloseQP(), verbs.ErrBusy)
	require.NotNil(t, p.id.QP())
	qp.fail = nil
	require.NoError(t, p.id.CloseQP())
}

func TestInitQPAttr(t *testing.T) {
	p := reach(t, cm.TCP, cm.StateResponded)
	for state := verbs.StateInit; state <= verbs.StateRTS; state++ {
		attr, mask, err := p.id.InitQPAttr(state)
		require.NoError(t, err)
		require.Equal(t, state, attr.State)
		require.Equal(t, verbs.AttrState, mask)
	}
	p.fake.calls = nil
	for _, state := range []verbs.QPState{verbs.StateReset, verbs.StateSQD, verbs.StateError, 99} {
		_, _, err := p.id.InitQPAttr(state)
		requireParam(t, err, "QP state", int64(state), int64(verbs.StateRTS))
	}
	require.Empty(t, p.fake.calls)
}
