//go:build linux

package unixcm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestLookup(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.UDP, "127.0.0.1:0", 0)
	question := bytes.Repeat([]byte("q"), 180)
	active := client.Connecting(cm.UDP, l.LocalAddr(), &cm.ConnParam{PrivateData: question})
	require.Equal(t, verbs.StateRTS, active.QP().State())
	passive, ev := server.Request(l)
	require.Equal(t, cm.MessageParam{PrivateData: question}, ev.Param)

	qp := server.CreateQP(passive)
	answer := bytes.Repeat([]byte("a"), 136)
	require.NoError(t, passive.Accept(&cm.ConnParam{PrivateData: answer}))
	server.Quiet() // The passive side gets no event after its answer.

	ev = client.Want(cm.Established, active)
	require.Equal(t, answer, ev.Param.PrivateData)
	require.Equal(t, qp.Num(), ev.UD.QPN)
	require.EqualValues(t, cm.DefaultQKey, ev.UD.QKey)
	require.Equal(t, verbs.GIDFromAddr(l.LocalAddr().Addr()), ev.UD.AH.DestGID)
	require.EqualValues(t, 1, ev.UD.AH.Port)

	// After the SIDR request was answered, one side calls Disconnect or closes its ID. The
	// other side gets no event.
	require.NoError(t, active.Disconnect(nil))
	require.Equal(t, verbs.StateError, active.QP().State())
	server.Quiet()
	server.End(passive)
	client.Quiet()
}

// Accept can answer a SIDR request with the number of a queue pair that CreateQP has not
// made, and with any Q_Key.
func TestLookupWithoutQP(t *testing.T) {
	for given, want := range map[uint32]uint32{0: cm.DefaultQKey, 77: 77} {
		client, server := newParty(t), newParty(t)
		l := server.Listen(cm.UDP, "127.0.0.1:0", 0)
		active := client.Resolved(cm.UDP, l.LocalAddr())
		require.NoError(t, active.Connect(&cm.ConnParam{QPNum: 1}))
		passive, _ := server.Request(l)
		require.NoError(t, passive.Accept(&cm.ConnParam{QPNum: 4711, QKey: given}))
		ev := client.Want(cm.Established, active)
		require.EqualValues(t, 4711, ev.UD.QPN)
		require.Equal(t, want, ev.UD.QKey)
	}
}

// The client gets the answer to its SIDR request even if the server closes the passive
// ID and the listener.
func TestLookupOutlivesAnswer(t *testing.T) {
	client, server := newParty(t), newParty(t)
	l := server.Listen(cm.UDP, "127.0.0.1:0", 0)
	active := client.Connecting(cm.UDP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	require.NoError(t, passive.Accept(&cm.ConnParam{QPNum: 4711}))
	server.End(passive)
	require.NoError(t, l.Close())
	client.Want(cm.Established, active)
	client.Quiet()
}
