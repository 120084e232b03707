//go:build linux

package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// limitMappings lets a party's device map at most n shared memory segments. For that,
// the limit of all mappings is 2*n, because a device uses at most half of them.
func limitMappings(s *party, n int) {
	none := func() (int, bool) { return 0, true }
	limit := shm.NewMappingLimit(2*n, none, shm.ByteLimits{}, &s.p.dev.local)
	d := s.p.dev
	d.ends = shm.NewEnds(d.cfg.geometry(), limit, d.attr.NodeGUID, nil)
	d.bindings.ends = d.ends
	// The event channel of the party belongs to the Manager with the other limit.
	d.cm = d.newManager(new(counters.Set), nil)
	require.NoError(s.T, s.Channel.Close())
	var err error
	s.Channel, err = cm.OpenChannel(s.p)
	require.NoError(s.T, err)
}

// newMaps returns a MappingLimit that is large enough for the tests.
func newMaps() *shm.MappingLimit {
	return shm.NewMappingLimit(shm.MaxMappings(), shm.CountMappings, shm.ByteLimits{}, new(counters.Set))
}

// works checks that a WRITE without data succeeds on a queue pair.
func works(t *testing.T, s *party, qp verbs.QP) {
	t.Helper()
	_, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}})
	require.NoError(t, err)
	var wc [1]verbs.WC
	for limit := time.Now().Add(safety); time.Now().Before(limit); {
		n, err := s.CQ.Poll(wc[:])
		require.NoError(t, err)
		if n == 1 {
			require.Equal(t, verbs.StatusSuccess, wc[0].Status)
			return
		}
		// The peer executes the WRITE during the sleep.
		time.Sleep(time.Millisecond)
	}
	require.Fail(t, "the peer does not answer")
}

// A listener that has reached its limit of shared memory segments refuses new clients.
// Clients that share a segment with it can still connect.
func TestListenerOutOfMappings(t *testing.T) {
	const room = 3
	server := newParty(t)
	limitMappings(server, room)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	var clients [room]*party
	var active, passive [room]*cm.ID
	for i := range room {
		clients[i] = newParty(t)
		active[i], passive[i] = connectTo(clients[i], server, l)
	}
	last := newParty(t)
	refused := last.Connecting(cm.TCP, l.LocalAddr(), nil)
	request, _ := server.Request(l)
	server.CreateQP(request)
	require.ErrorIs(t, request.Accept(nil), verbs.ErrNoResources)
	last.WantNoResources(refused)
	require.Equal(t, counted{"no_mappings_err": 1}, countsOf(t, server.p.dev))
	for i, id := range active {
		works(t, clients[i], id.QP())
		connectTo(clients[i], server, l)
	}
}

// A client that has reached its limit of shared memory segments can not dial another
// device. That device gets a REJ.
func TestDialOutOfMappings(t *testing.T) {
	other, client, server := newParty(t), newParty(t), newParty(t)
	limitMappings(client, 1)
	l, second := server.Listen(cm.TCP, "127.0.0.1:0", 0), other.Listen(cm.TCP, "127.0.0.1:0", 0)
	first, _ := connectTo(client, server, l)
	id := client.Connecting(cm.TCP, second.LocalAddr(), nil)
	passive, _ := other.Request(second)
	other.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	ev := client.Want(cm.ConnectError, id)
	require.ErrorIs(t, ev.Err, verbs.ErrNoResources)
	other.WantRejected(passive, cm.RejectNoResources, false, nil)
	require.Equal(t, counted{"no_mappings_err": 1}, countsOf(t, client.p.dev))
	works(t, client, first.QP())
	connectTo(client, server, l)
}

// The limit of shared memory segments also holds for queue pairs that Modify connects,
// without connection management.
func TestPairOutOfMappings(t *testing.T) {
	s := newParty(t)
	limitMappings(s, 1)
	for range 2 {
		_, err := s.p.dev.bindings.take(2, 3)
		require.ErrorIs(t, err, verbs.ErrNoResources)
	}
}
