//go:build linux

package main

import (
	"context"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

type namedAttack struct {
	name string
	run  func(ctx context.Context, s *testbed) error
}

// attacks returns the attacks for the path of the testbed.
func (s *testbed) attacks() []namedAttack {
	common := []namedAttack{
		{"kill clients", killClients},
		{"stop clients", stopClients},
		{"kill the server", restartServer},
		s.attackAt(&s.long, hostile.RoleLongViolator, hostile.Spec{}),
		s.attackAt(&s.long, hostile.RoleHanging, hostile.Spec{Conns: 6}),
		s.attackAt(&s.streams, hostile.RoleStreamViolator, hostile.Spec{}),
		s.attackAt(&s.streams, hostile.RoleStreamHalfOpen, hostile.Spec{Interval: 10 * time.Millisecond}),
		s.attackAt(&s.streams, hostile.RoleStreamSilent, hostile.Spec{Conns: 500}),
		s.attackAt(&s.target, hostile.RoleHostileHost, hostile.Spec{}),
		s.attackAt(&s.target, hostile.RoleBusyHost, hostile.Spec{Conns: 2}),
	}
	if s.path == soft.PathWire {
		return append(common,
			s.roleAttack(hostile.RoleFlood, hostile.Spec{From: hostile.FloodAddr(), Sources: 250, Interval: 10 * time.Millisecond}),
			s.roleAttack(hostile.RoleInvalid, hostile.Spec{Interval: 5 * time.Millisecond}),
			s.roleAttack(hostile.RoleViolator, hostile.Spec{NoDisconnect: true}),
			s.roleAttack(hostile.RoleIdler, hostile.Spec{Interval: 10 * time.Millisecond}),
			s.roleAttack(hostile.RoleHalves, hostile.Spec{Conns: 8}),
			s.roleAttack(hostile.RoleHalves, hostile.Spec{Conns: 60, LongTimeout: true, Interval: 10 * time.Millisecond}),
			s.attackAt(&s.long, hostile.RoleLongHolder, hostile.Spec{Conns: 4, MaxLongMessage: hostile.LongMessage, Hold: hostile.HoldTrickle}),
		)
	}
	return append(common,
		s.roleAttack(hostile.RoleCorrupter, hostile.Spec{Conns: 4}),
		s.roleAttack(hostile.RoleLocalHalves, hostile.Spec{Conns: 60}),
		s.roleAttack(hostile.RoleForbidder, hostile.Spec{Conns: 16}),
		s.roleAttack(hostile.RoleSharer, hostile.Spec{Messages: 20000}),
		s.attackAt(&s.long, hostile.RoleSparse, hostile.Spec{}),
		s.attackAt(&s.long, hostile.RolePuncher, hostile.Spec{}),
		s.roleAttack(hostile.RoleMalformed, hostile.Spec{}),
		s.roleAttack(hostile.RoleSpoofer, hostile.Spec{Interval: time.Millisecond}),
	)
}

// attackAt is roleAttack for a service other than the first server. The processes run as
// the user of this process.
func (s *testbed) attackAt(at *service, r hostile.Role, spec hostile.Spec) namedAttack {
	spec.Addr = at.addr
	return userAttack(r, sameUser, spec)
}

// roleAttack is userAttack by the user of the attackers of the testbed.
func (s *testbed) roleAttack(r hostile.Role, spec hostile.Spec) namedAttack {
	return userAttack(r, s.user, spec)
}

// userAttack returns an attack by a process in the given role. At the end, the process is
// told to finish or killed, at random.
func userAttack(r hostile.Role, user int, spec hostile.Spec) namedAttack {
	return namedAttack{string(r), func(ctx context.Context, s *testbed) error {
		p, err := s.start(r, user, spec)
		if err != nil {
			return err
		}
		defer p.Kill()
		s.wait(ctx, s.durations.attack)
		if s.rand.IntN(2) == 0 {
			return nil
		}
		_, err = p.Finish()
		return err
	}}
}

// killClients kills clients while messages are in flight.
func killClients(ctx context.Context, s *testbed) error {
	p, err := s.start(hostile.RoleClient, s.user, hostile.Spec{Conns: 8, Expendable: true})
	if err != nil {
		return err
	}
	defer p.Kill()
	s.wait(ctx, time.Second)
	return nil
}

// stopClients stops clients and then kills or continues them, at random. If they
// continue, they must have lost nothing. They do not run as the user of the attackers, whom
// the server may refuse for a while after his violations.
func stopClients(ctx context.Context, s *testbed) error {
	p, err := s.start(hostile.RoleClient, sameUser, hostile.Spec{Conns: 8})
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := p.Stop(); err != nil {
		return err
	}
	s.wait(ctx, s.durations.attack)
	if s.rand.IntN(2) == 0 {
		return nil
	}
	if err := p.Continue(); err != nil {
		return err
	}
	note, err := p.Finish()
	if err != nil {
		return err
	}
	return lossOf(note.Tally)
}

// A client must be connected to its restarted server within this time. On the wire path,
// the client first retries its requests.
const restartLimit = 90 * time.Second

// restartServer kills and restarts the second server. It waits until the server's client
// has connected again.
func restartServer(ctx context.Context, s *testbed) error {
	s.restarted.Kill()
	s.wait(ctx, time.Second)
	var err error
	if s.restarted, _, err = s.listen(s.restartedAddr); err != nil {
		return err
	}
	before, err := s.restartedClient.Report()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(restartLimit); time.Now().Before(deadline); pause(ctx, 50*time.Millisecond) {
		now, err := s.restartedClient.Report()
		if err != nil || now.Tally.Echoes > before.Tally.Echoes {
			return err
		}
		if ctx.Err() != nil {
			// The time of the soak is over, and the client has not connected.
			return nil
		}
	}
	return errNoEchoes
}
