//go:build linux

package unixcm

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/testutil/cmside"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr/cmtest"
)

// A recorder is a cm.Transport that records the ID of connmgr that its channel has made.
type recorder struct {
	*party
	id *connmgr.ID
}

func (r *recorder) OpenChannel() (cm.TransportChannel, error) {
	_, err := r.Party.OpenChannel()
	return recordedChannel{r.TC, r}, err
}

type recordedChannel struct {
	*connmgr.Channel
	r *recorder
}

func (c recordedChannel) NewID(ps cm.PortSpace) (cm.TransportID, error) {
	id, err := c.Channel.NewID(ps)
	c.r.id, _ = id.(*connmgr.ID)
	return id, err
}

// stateTable returns the rows of the table in cm/state.go.
func stateTable(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../../../cm/state.go")
	require.NoError(t, err)
	table, _, _ := strings.Cut(string(text), "\ntype State ")
	for line := range strings.Lines(table) {
		if row, ok := strings.CutPrefix(line, "//\t"); ok {
			rows = append(rows, regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(row), -1))
		}
	}
	return rows[1:] // The first row has the names of the columns.
}

// The columns of provider/soft and cm in the table in cm/state.go are true.
func TestStatesOfOneConnection(t *testing.T) {
	leak.Watch(t)
	server, client := newParty(t), &recorder{party: makeParty(true)}
	client.Side = cmside.Open(t, client, client.Dev)
	clock := cmtest.UseClock(server.TC)
	rows := stateTable(t)
	require.Len(t, rows, 5+6+5+6)
	want := func(n int, step string, s *party, transport *connmgr.ID, id *cm.ID) {
		t.Helper()
		row := rows[n]
		require.Equal(t, step, row[0])
		var state connmgr.State
		s.TC.Probe().Locked(func() { state = transport.State() })
		require.Equal(t, row[len(row)-3], state.String(), step)
		if id != nil {
			require.Equal(t, row[len(row)-2], id.State().String(), step)
		}
	}
	l := server.Listen(cm.TCP, "127.0.0.1:0", 0)
	active := client.ID(cm.TCP)
	a := client.id
	require.NoError(t, active.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), time.Second))
	want(0, "Dial", client.party, a, active)
	client.Want(cm.AddrResolved, active)
	require.NoError(t, active.ResolveRoute(time.Second))
	want(1, "AddrResolved is fetched", client.party, a, active)
	client.Want(cm.RouteResolved, active)
	client.CreateQP(active)
	require.NoError(t, active.Connect(nil))
	want(2, "RouteResolved is fetched", client.party, a, active)

	require.NoError(t, server.TC.Probe().Drive())
	p := server.TC.Probe().Queued()[0].ID.(*connmgr.ID)
	want(5, "the REQ arrives", server, p, nil)
	passive, _ := server.Request(l)
	want(6, "ConnectRequest is fetched", server, p, passive)
	want(7, "Accept, the ID moves", server, p, passive)
	server.CreateQP(passive)
	require.NoError(t, passive.Accept(nil))
	want(8, "the queue pair is made", server, p, passive)
	require.NoError(t, client.TC.Probe().Drive())
	want(3, "the REP arrives", client.party, a, active)
	client.Want(cm.Established, active)
	want(4, "Established is fetched", client.party, a, active)
	require.NoError(t, server.TC.Probe().Drive())
	want(9, "the RTU arrives, or data", server, p, passive)
	server.Want(cm.Established, passive)
	want(10, "Established is fetched", server, p, passive)

	want(11, "Close", client.party, a, active)
	server.Dev.SetAwaitsNotices(true)
	require.NoError(t, active.Disconnect(nil))
	want(12, "all sends are confirmed", client.party, a, active)
	want(13, "the queues are flushed", client.party, a, active)
	require.NoError(t, server.TC.Probe().Drive())
	want(16, "the DREQ arrives", server, p, passive)
	server.Dev.SetAwaitsNotices(false)
	clock.Advance(connmgr.NoticeInterval)
	require.NoError(t, server.TC.Probe().Drive())
	want(17, "the notices have arrived", server, p, passive)
	server.Want(cm.Disconnected, passive)
	want(18, "Disconnected is fetched", server, p, passive)
	require.NoError(t, passive.Disconnect(nil))
	want(19, "the CQ was polled empty", server, p, passive)
	want(20, "the queues are flushed", server, p, passive)
	server.Want(cm.TimewaitExit, passive)
	server.End(passive)
	want(21, "next step of the loop", server, p, passive)
	require.NoError(t, client.TC.Probe().Drive())
	want(14, "the DREP arrives", client.party, a, active)
	client.Want(cm.Disconnected, active)
	client.Want(cm.TimewaitExit, active)
	client.End(active)
	want(15, "Disconnected is fetched", client.party, a, active)
}
