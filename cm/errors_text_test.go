package cm_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestCallTexts has the whole text of the errors of calls that package cm refuses.
func TestCallTexts(t *testing.T) {
	var none netip.AddrPort
	idle := newPeer(t, cm.TCP)
	resolve := func(src, dst string) error {
		from := none
		if src != "" {
			from = addr(src)
		}
		return newPeer(t, cm.TCP).id.ResolveAddr(from, addr(dst), time.Second)
	}
	in := func(s cm.State) *cm.ID { return reach(t, cm.TCP, s).id }
	connect := func(c cm.ConnParam) error { return routed(t, cm.TCP).id.Connect(&c) }
	closed := newPeer(t, cm.TCP).id
	require.NoError(t, closed.Close())
	busy := routed(t, cm.TCP)
	busy.createQP()
	listener := listening(t, cm.TCP)
	ev, child := listener.request(cm.MessageParam{}, nil)
	unacked := listener.id.Close()
	require.NoError(t, ev.Ack())
	open := func(tr cm.Transport) error { _, err := cm.OpenChannel(tr); return err }
	newID := func(ps cm.PortSpace) error { _, err := idle.id.Channel().NewID(ps); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{open(nil), "rdma: cm open channel: transport: missing"},
		{newID(7), "rdma: cm create ID: port space 7: neither TCP nor UDP"},
		{idle.id.Bind(none), "rdma: cm bind: address: missing, or not valid"},
		{idle.id.Bind(addr("224.0.0.1:1")), "rdma: cm bind: address: 224.0.0.1 is a multicast address, to which an ID can not be bound"},
		{resolve("", "0.0.0.0:1"), "rdma: cm resolve address: destination: 0.0.0.0 is the wildcard address, which is not a destination"},
		{resolve("[::1]:1", "127.0.0.1:1"), "rdma: cm resolve address: source: ::1 is not of the family of the destination, 127.0.0.1"},
		{idle.id.ResolveAddr(none, remote, -time.Second), "rdma: cm resolve address: timeout -1s: the minimum is 1ns"},
		{idle.id.ResolveAddr(none, remote, 600*time.Hour), "rdma: cm resolve address: timeout 600h0m0s: the limit is 596h31m23.647s"},
		{idle.id.Connect(nil), "rdma: cm connect: wrong state: the ID is idle, and not route resolved"},
		{idle.id.Accept(nil), "rdma: cm accept: wrong state: the ID is idle, and not requested"},
		{in(cm.StateConnecting).SetTOS(1), "rdma: cm set TOS: wrong state: the ID is connecting"},
		{in(cm.StateBound).ResolveRoute(1), "rdma: cm resolve route: wrong state: the ID is bound, and not address resolved"},
		{busy.id.CreateQP(thePD, nil), "rdma: cm create QP: wrong state: the ID has a queue pair"},
		{routed(t, cm.TCP).id.CreateQP(nil, nil), "rdma: cm create QP: protection domain: missing"},
		{connect(cm.ConnParam{}), "rdma: cm connect: QP number 0: required for an ID without queue pair"},
		{connect(cm.ConnParam{QPNum: 1, PrivateData: make([]byte, 57)}), "rdma: cm connect: private data length 57: the limit is 56"},
		{connect(cm.ConnParam{QPNum: 1, RetryCount: 8}), "rdma: cm connect: retry count 8: the limit is 7"},
		{child.id.Reject(make([]byte, 149)), "rdma: cm reject: private data length 149: the limit is 148"},
		{ev.Ack(), "rdma: cm ack event: wrong state: the event was acknowledged before, or is no event of a channel"},
		{unacked, "rdma: cm close ID: still in use: 1 events of the ID are not acknowledged"},
		{busy.id.Close(), "rdma: cm close ID: still in use: the ID has a queue pair"},
		{idle.id.Migrate(nil), "rdma: cm migrate: channel: missing"},
		{closed.Bind(local), "rdma: cm bind: closed"},
		{idle.id.Channel().Close(), "rdma: cm close channel: still in use: the channel has 1 IDs"},
		{in(cm.StateAccepted).Notify(verbs.AsyncPortError), "rdma: cm notify: asynchronous event 10: only AsyncCommEst concerns a connection"},
	} {
		assert.EqualError(t, c.err, c.want)
	}
}
