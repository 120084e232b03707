//go:build linux

package hostile_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// TestShutdownBesideStrangers checks that strangers do not delay the end of a server:
// hosts whose requests are half-open, and a host that opens connections and then answers
// nothing. All time limits of the server are longer than the time that it has to end.
func TestShutdownBesideStrangers(t *testing.T) {
	s := withWirePath(hostile.Spec{
		Addr: netip.AddrPortFrom(newAddr(), 0), Greet: true,
		ConnectTimeout: never, DecisionTimeout: never, DrainTimeout: never, Keepalive: never,
	})
	t.Parallel()
	server, note := start(t, hostile.RoleServer, sameUser, s)
	f := &fixture{t: t, addr: note.Addr, server: server}
	silent, _ := f.start(hostile.RoleIdler, sameUser, withWirePath(hostile.Spec{Seed: 1, Rounds: 300}))
	note, err := silent.Await()
	require.NoError(t, err)
	require.EqualValues(t, 300, note.Attack.Admitted)
	from := newAddr()
	// The attack uses two consecutive addresses. This call reserves the second one.
	newAddr()
	flood, _ := f.start(hostile.RoleFlood, sameUser, withWirePath(hostile.Spec{
		From: from, Sources: 2, Seed: 2, Interval: 10 * time.Millisecond,
	}))
	f.eventually(func() bool {
		s := f.report(server).Server
		open := s.Opened
		for _, n := range s.Closed {
			open -= n
		}
		return s.Conns-open >= 400
	}, "there are few half-open connections")
	t.Logf("%+v", f.report(server).Server)
	began := time.Now()
	_, err = server.Finish()
	require.NoError(t, err)
	t.Logf("the server has ended after %v", time.Since(began))
	flood.Kill()
	silent.Kill()
}
