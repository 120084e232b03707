//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A side without responder resources allows its peer neither READs nor atomics.
func TestAccessFollowsResources(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), &cm.ConnParam{ResponderResources: -1, InitiatorDepth: 2})
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(&cm.ConnParam{ResponderResources: 2, InitiatorDepth: -1}))
	client.Want(cm.Established, active)
	cmtest.RequireQP(t, active.QP(), cmtest.WantQP{Outstanding: 2, Retry: 7, RNRRetry: 7, Peer: passive})
	cmtest.RequireQP(t, passive.QP(), cmtest.WantQP{Served: 2, Retry: 7, RNRRetry: 7, Peer: active})
}

func TestOptionsReachQP(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.ID(cm.TCP)
	require.NoError(t, active.SetTOS(0x68))
	require.NoError(t, active.SetAckTimeout(14))
	require.NoError(t, active.SetMinRNRTimer(0))
	client.Resolve(active, l.LocalAddr())
	client.CreateQP(active)
	require.NoError(t, active.Connect(nil))
	passive, _ := server.Request(l)
	require.NoError(t, passive.SetAckTimeout(0))
	require.NoError(t, passive.SetMinRNRTimer(31))
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	client.Want(cm.Established, active)

	attr, err := active.QP().Query()
	require.NoError(t, err)
	require.EqualValues(t, 14, attr.Timeout)
	require.EqualValues(t, 0x68, attr.AH.TrafficClass)
	require.EqualValues(t, 0, attr.MinRNRTimer, "the longest")
	require.Equal(t, verbs.GIDFromAddr(l.LocalAddr().Addr()), attr.AH.DestGID)
	theirs, err := passive.QP().Query()
	require.NoError(t, err)
	require.Zero(t, theirs.Timeout, "0 means no timeout")
	require.EqualValues(t, 31, theirs.MinRNRTimer)
	require.Equal(t, attr.SQPSN, theirs.RQPSN)
	require.Equal(t, theirs.SQPSN, attr.RQPSN)
}
