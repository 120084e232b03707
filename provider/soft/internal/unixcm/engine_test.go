//go:build linux

package unixcm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// If Engine.Bind fails in Accept, the server refuses the client.
func TestAcceptWithoutBinding(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	qp := server.CreateQP(passive)
	server.Dev.BindErr = verbs.ErrNoResources
	require.ErrorIs(t, passive.Accept(nil), verbs.ErrNoResources)
	require.Equal(t, verbs.StateError, qp.State())
	client.WantRejected(active, cm.RejectNoResources, false, nil)
	server.End(passive)
	client.End(active)
	client.Quiet()
	server.Quiet()
}

// If Engine.Bind fails on the active side, the active side answers the REP with a REJ.
func TestREPWithoutBinding(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	client.Dev.BindErr = verbs.ErrNoResources
	require.NoError(t, passive.Accept(nil))
	ev := client.Want(cm.ConnectError, active)
	require.ErrorIs(t, ev.Err, verbs.ErrNoResources)
	require.Equal(t, verbs.StateError, active.QP().State())
	server.WantRejected(passive, cm.RejectNoResources, false, nil)
	require.Equal(t, verbs.StateError, passive.QP().State())
	server.End(passive)
	client.End(active)
	client.Quiet()
	server.Quiet()
}
