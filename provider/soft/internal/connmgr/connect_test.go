//go:build linux

package connmgr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestConnect(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{
		PrivateData: []byte("hello"), ResponderResources: 3, InitiatorDepth: 5,
		FlowControl: true, RetryCount: 6, RNRRetryCount: 2,
	})

	passive, ev := server.Request(l)
	// The receiver's responder resources are the sender's initiator depth. The receiver's
	// initiator depth is the sender's responder resources.
	require.Equal(t, cm.MessageParam{
		PrivateData: []byte("hello"), ResponderResources: 5, InitiatorDepth: 3,
		FlowControl: true, RetryCount: 6, RNRRetryCount: 2, QPNum: active.QP().Num(),
	}, ev.Param)
	require.Equal(t, l.LocalAddr(), passive.LocalAddr())
	require.Equal(t, active.LocalAddr(), passive.RemoteAddr())
	require.Equal(t, passive.LocalAddr(), active.RemoteAddr())
	require.Same(t, server.Dev, passive.Device())
	require.EqualValues(t, 1, passive.Port())

	server.CreateQP(passive)
	require.NoError(t, passive.Accept(&cm.ConnParam{
		PrivateData: []byte("welcome"), ResponderResources: 4, InitiatorDepth: 1, FlowControl: true, RNRRetryCount: 7,
	}))
	require.Equal(t, verbs.StateRTS, passive.QP().State(), "the passive queue pair is ready before the reply is sent")

	ev = client.Want(cm.Established, active)
	require.Equal(t, cm.MessageParam{
		PrivateData: []byte("welcome"), ResponderResources: 1, InitiatorDepth: 4,
		FlowControl: true, RNRRetryCount: 7, QPNum: passive.QP().Num(),
	}, ev.Param)
	require.Equal(t, verbs.StateRTS, active.QP().State())
	ev = server.Want(cm.Established, passive)
	require.Zero(t, ev.Param)

	RequireQP(t, active.QP(), WantQP{Served: 1, Outstanding: 4, Retry: 6, RNRRetry: 7, Peer: passive})
	RequireQP(t, passive.QP(), WantQP{Served: 4, Outstanding: 1, Retry: 6, RNRRetry: 2, Peer: active})
}

type WantQP struct {
	Served, Outstanding, Retry, RNRRetry uint8
	Peer                                 *cm.ID
}

func RequireQP(t *testing.T, qp verbs.QP, want WantQP) {
	t.Helper()
	attr, err := qp.Query()
	require.NoError(t, err)
	require.Equal(t, want.Served, attr.MaxDestRdAtomic)
	require.Equal(t, want.Outstanding, attr.MaxRdAtomic)
	require.Equal(t, want.Retry, attr.RetryCount)
	require.Equal(t, want.RNRRetry, attr.RNRRetry)
	require.Equal(t, want.Peer.QP().Num(), attr.DestQPN)
	require.EqualValues(t, PacketLifetime+1, attr.Timeout)
	require.EqualValues(t, cm.DefaultMinRNRTimer, attr.MinRNRTimer)
	require.NotZero(t, attr.Access&verbs.AccessRemoteWrite)
	require.Equal(t, want.Served > 0, attr.Access&verbs.AccessRemoteRead != 0)
	require.Equal(t, want.Served > 0, attr.Access&verbs.AccessRemoteAtomic != 0)
}
