//go:build linux

package unixcm

import (
	"bytes"
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

// sizes returns the lengths of private data to test: zero, one, and the largest length
// for the message m.
func sizes(ps cm.PortSpace, m cm.Message) [3]int { return [3]int{0, 1, cm.MaxPrivateData(ps, m)} }

// lend passes n bytes of private data to call(). After the call, lend overwrites these
// bytes. It returns a copy of the original bytes.
func lend(t *testing.T, n int, call func(*cm.ConnParam) error) (want []byte) {
	t.Helper()
	want = bytes.Repeat([]byte{'x', 0}, n)[:n]
	lent := bytes.Clone(want)
	require.NoError(t, call(&cm.ConnParam{PrivateData: lent}))
	clear(lent)
	return want
}

// Private data of each length arrives with the contents that it had at the time of the
// call. Events of other messages have no private data.
func TestPrivateData(t *testing.T) {
	cmtest.EachPortSpace(t, func(t *testing.T, ps cm.PortSpace) {
		for i := range 3 {
			client, server := newParty(t), newParty(t)
			l := server.Listen(ps, "127.0.0.1:0", 0)
			active := client.Resolved(ps, l.LocalAddr())
			client.CreateQP(active)
			question := lend(t, sizes(ps, cm.MessageConnect)[i], active.Connect)
			passive, ev := server.Request(l)
			require.Equal(t, string(question), string(ev.Param.PrivateData))

			server.CreateQP(passive)
			answer := lend(t, sizes(ps, cm.MessageAccept)[i], passive.Accept)
			require.Equal(t, string(answer), string(client.Want(cm.Established, active).Param.PrivateData))
			if ps == cm.TCP {
				require.Empty(t, server.Want(cm.Established, passive).Param.PrivateData)
				last := lend(t, sizes(ps, cm.MessageDisconnect)[i], func(p *cm.ConnParam) error { return active.Disconnect(p.PrivateData) })
				require.Equal(t, string(last), string(server.Want(cm.Disconnected, passive).Param.PrivateData))
				require.NoError(t, passive.Disconnect(nil))
				require.Empty(t, client.Want(cm.Disconnected, active).Param.PrivateData)
			}
		}
	})
}
