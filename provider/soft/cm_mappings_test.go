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

// limitMappings lets a party's device map at most n shared memory segments. A device
// uses at most half of the allowed mappings.
func limitMappings(s *party, n int) {
	none := func() (int, bool) { return 0, true }
	limit := shm.NewMappingLimit(2*n, none, &s.p.dev.local)
	s.p.dev.bindings.maps, s.p.dev.cm.Maps = limit, limit
}

// newMaps returns a MappingLimit that tests do not reach.
func newMaps() *shm.MappingLimit {
	return shm.NewMappingLimit(shm.MaxMappings(), shm.CountMappings, new(counters.Set))
}

// works requires that a WRITE without data succeeds on a queue pair.
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
		// During the sleep, the peer's shard executes the WRITE.
		time.Sleep(time.Millisecond)
	}
	require.Fail(t, "the peer does not answer")
}

// A listener at its limit of shared memory segments refuses new connections until one
// ends. The test sets a small limit, because the Go runtime needs mappings too.
func TestListenerOutOfMappings(t *testing.T) {
	const room = 3
	client, server := newParty(t), newParty(t)
	limitMappings(server, room)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	var active, passive [room]*cm.ID
	for i := range room {
		active[i], passive[i] = connectTo(client, server, l)
	}
	refused := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	request, _ := server.Request(l)
	server.CreateQP(request)
	require.ErrorIs(t, request.Accept(nil), verbs.ErrNoResources)
	client.WantNoResources(refused)
	require.Equal(t, counted{"no_mappings_err": 1}, countsOf(t, server.p.dev))
	for _, id := range active {
		works(t, client, id.QP())
	}

	server.End(passive[0])
	client.Want(cm.Disconnected, active[0])
	connectTo(client, server, l)
}

// At the limit of shared memory segments, a dial fails, and the passive side gets a REJ.
func TestDialOutOfMappings(t *testing.T) {
	client, server := newParty(t), newParty(t)
	limitMappings(client, 1)
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	first, its := connectTo(client, server, l)
	id := client.Connecting(cm.TCP, l.LocalAddr(), nil)
	passive, _ := server.Request(l)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	ev := client.Want(cm.ConnectError, id)
	require.ErrorIs(t, ev.Err, verbs.ErrNoResources)
	server.WantRejected(passive, cm.RejectNoResources, false, nil)
	require.Equal(t, counted{"no_mappings_err": 1}, countsOf(t, client.p.dev))
	works(t, client, first.QP())
	client.End(first)
	server.Want(cm.Disconnected, its)
	connectTo(client, server, l)
}

// The limit of shared memory segments also holds for queue pairs that Modify connects,
// without connection management.
func TestPairOutOfMappings(t *testing.T) {
	s := newParty(t)
	limitMappings(s, 1)
	_, err := s.p.dev.bindings.take(2, 3)
	require.ErrorIs(t, err, verbs.ErrNoResources)
	require.NoError(t, s.p.dev.bindings.maps.Acquire(), "the failed pair has released its mapping")
	s.p.dev.bindings.maps.Release()
}
