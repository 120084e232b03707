//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// User IDs of child processes. sameUser means the user of this process. otherUser is
// arbitrary and needs no account.
const (
	sameUser  = -1
	otherUser = 54321
)

// A testbed has the processes of one path. It has a server whose clients must lose
// nothing, and a server that is restarted. Attacks run one at a time.
type testbed struct {
	name string
	path soft.Path
	// Used by the goroutine of the attacks only.
	rand *rand.Rand
	// User of the attackers: otherUser if this process is root, else sameUser.
	user      int
	next      int // number of the next address
	durations durations
	// Called with the name of each attack, on the goroutine of the attacks.
	onAttack func(attack string)

	server *hostile.Process
	addr   netip.AddrPort
	// Clients of the first server. The steady one keeps its connections, and the churning
	// one closes each connection after a few messages.
	steadyClient, churningClient *hostile.Process

	// services with clients that must lose nothing
	long, streams, target service

	restarted     *hostile.Process
	restartedAddr netip.AddrPort
	// Client of the second server, which is killed and restarted. After each restart the
	// client must connect again.
	restartedClient *hostile.Process
}

// A service is a server of one kind and its client.
type service struct {
	server, client *hostile.Process
	addr           netip.AddrPort
}

// startServices starts the services.
func (s *testbed) startServices() (err error) {
	for _, v := range []struct {
		*service
		server, client hostile.Role
		long           int
	}{
		{&s.long, hostile.RoleServer, hostile.RoleClient, hostile.LongMessage},
		{&s.streams, hostile.RoleStreamServer, hostile.RoleStreamClient, 0},
		{&s.target, hostile.RoleTarget, hostile.RoleHost, 0},
	} {
		var note hostile.Note
		v.service.server, note, err = hostile.Start(v.server, sameUser, &hostile.Spec{
			Path: s.path, Addr: netip.AddrPortFrom(s.newAddr(), 0), MaxLongMessage: v.long,
			Keepalive: s.durations.keepalive, ConnectTimeout: s.durations.connect,
		})
		if err != nil {
			return err
		}
		v.addr = note.Addr
		spec := hostile.Spec{Addr: v.addr, Conns: 2, MaxLongMessage: v.long, Pause: 10 * time.Millisecond}
		if v.service.client, err = s.start(v.client, sameUser, spec); err != nil {
			return err
		}
	}
	return nil
}

// services returns the services.
func (s *testbed) services() []*service { return []*service{&s.long, &s.streams, &s.target} }

func newTestbed(name string, path soft.Path, o *options) *testbed {
	s := &testbed{name: name, path: path, rand: rand.New(rand.NewPCG(o.seed, uint64(path))), user: sameUser, durations: o.durations()}
	if os.Geteuid() == 0 {
		s.user = otherUser
	}
	return s
}

// startAll starts the servers and their clients.
func (s *testbed) startAll() (err error) {
	if s.server, s.addr, err = s.listenAnywhere(); err != nil {
		return err
	}
	if err = s.startServices(); err != nil {
		return err
	}
	if s.restarted, s.restartedAddr, err = s.listenAnywhere(); err != nil {
		return err
	}
	if s.steadyClient, err = s.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 4}); err != nil {
		return err
	}
	if s.churningClient, err = s.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 4, Messages: 50}); err != nil {
		return err
	}
	s.restartedClient, err = s.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 4, Addr: s.restartedAddr, Expendable: true})
	return err
}

// Numbers of addresses that hostile.Addr returns. The first fixedAddrs addresses are for
// processes that run during the whole soak. The other addresses are used again after
// their processes have ended.
const (
	fixedAddrs = 30
	allAddrs   = 254 // number of different addresses that hostile.Addr returns
)

// newAddr returns an address that no other running process of the soak uses.
func (s *testbed) newAddr() netip.Addr {
	if s.path != soft.PathWire {
		return netip.MustParseAddr("127.0.0.1")
	}
	n := s.next
	if s.next++; s.next == allAddrs {
		s.next = fixedAddrs
	}
	return hostile.Addr(n)
}

func (s *testbed) listenAnywhere() (*hostile.Process, netip.AddrPort, error) {
	return s.listen(netip.AddrPortFrom(s.newAddr(), 0))
}

func (s *testbed) listen(at netip.AddrPort) (*hostile.Process, netip.AddrPort, error) {
	p, note, err := hostile.Start(hostile.RoleServer, sameUser, &hostile.Spec{
		Path: s.path, Addr: at, AnyUser: true, Keepalive: s.durations.keepalive, ConnectTimeout: s.durations.connect,
	})
	return p, note.Addr, err
}

// start starts a process that dials spec.Addr. If spec.Addr is not set, the process dials
// the first server.
func (s *testbed) start(r hostile.Role, user int, spec hostile.Spec) (*hostile.Process, error) {
	spec.Path, spec.Seed = s.path, s.rand.Uint64()
	if !spec.Addr.IsValid() {
		spec.Addr = s.addr
	}
	if s.path == soft.PathWire && !spec.From.IsValid() {
		spec.From = s.newAddr()
		// Some attackers also use the next address.
		s.newAddr()
	}
	p, _, err := hostile.Start(r, user, &spec)
	return p, err
}

func (s *testbed) kill() {
	all := []*hostile.Process{s.server, s.steadyClient, s.churningClient, s.restarted, s.restartedClient}
	for _, v := range s.services() {
		all = append(all, v.server, v.client)
	}
	for _, p := range all {
		if p != nil {
			p.Kill()
		}
	}
}

// runAttacks runs attacks in random order, one after another, until the context ends.
func (s *testbed) runAttacks(ctx context.Context) error {
	plans := s.attacks()
	for ctx.Err() == nil {
		p := plans[s.rand.IntN(len(plans))]
		s.onAttack(p.name)
		if err := p.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// wait waits for a random time below the limit, or until the context ends.
func (s *testbed) wait(ctx context.Context, limit time.Duration) {
	pause(ctx, time.Duration(s.rand.Int64N(int64(limit))))
}

// pause waits for the duration d, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

var errNoEchoes = errors.New("the client gets no echoes from the restarted server")
