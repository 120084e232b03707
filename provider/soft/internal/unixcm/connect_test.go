//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
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

	cmtest.RequireQP(t, active.QP(), cmtest.WantQP{Served: 1, Outstanding: 4, Retry: 6, RNRRetry: 7, Peer: passive})
	cmtest.RequireQP(t, passive.QP(), cmtest.WantQP{Served: 4, Outstanding: 1, Retry: 6, RNRRetry: 2, Peer: active})
}
