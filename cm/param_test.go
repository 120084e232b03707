package cm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// requireParam requires an *OpError with this *verbs.ParamError.
func requireParam(t testing.TB, err error, field string, value, limit int64) {
	t.Helper()
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	var op *verbs.OpError
	require.ErrorAs(t, err, &op)
	require.Regexp(t, "^cm ", op.Op)
	require.Equal(t, field, param.Field)
	require.Equal(t, value, param.Value)
	require.Equal(t, limit, param.Limit)
}

func TestMaxPrivateData(t *testing.T) {
	want := map[cm.PortSpace][]int{cm.TCP: {56, 196, 148, 220, 0}, cm.UDP: {180, 136, 136, 0, 0}}
	for ps, limits := range want {
		for m, limit := range limits {
			require.Equal(t, limit, cm.MaxPrivateData(ps, cm.Message(m)), "%v %v", ps, cm.Message(m))
		}
	}
}

// TestConnParamOfMessage checks that MessageParam.ConnParam keeps the counts, and
// nothing that describes the peer.
func TestConnParamOfMessage(t *testing.T) {
	for _, want := range []cm.MessageParam{
		{QPNum: fakeQPNum},
		{
			ResponderResources: 1, InitiatorDepth: 2, FlowControl: true, RetryCount: 3,
			RNRRetryCount: 4, QPNum: fakeQPNum,
		},
	} {
		p := withQP(routed(t, cm.TCP))
		require.NoError(t, p.id.Connect(want.ConnParam()))
		require.Equal(t, want, p.fake.param)
	}
	ofPeer := cm.MessageParam{PrivateData: []byte("x"), SRQ: true, QPNum: 7, QKey: 8}
	require.Equal(t, &cm.ConnParam{
		ResponderResources: -1, InitiatorDepth: -1, RetryCount: -1, RNRRetryCount: -1,
	}, ofPeer.ConnParam())
}

func TestParamNames(t *testing.T) {
	require.Equal(t, "tcp", cm.TCP.String())
	require.Equal(t, "udp", cm.UDP.String())
	require.Equal(t, "port space 2", cm.PortSpace(2).String())
	require.Equal(t, "accept", cm.MessageAccept.String())
	require.Equal(t, "disconnect", cm.MessageDisconnect.String())
	require.Equal(t, "message 9", cm.Message(9).String())
	require.Equal(t, "ACK_TIMEOUT", cm.OptionAckTimeout.String())
	require.Equal(t, "option 9", cm.Option(9).String())
	require.Equal(t, verbs.QPTypeRC, cm.TCP.QPType())
	require.Equal(t, verbs.QPTypeUD, cm.UDP.QPType())
}
