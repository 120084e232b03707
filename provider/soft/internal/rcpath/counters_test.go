//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestCountersOfTheRequester(t *testing.T) {
	for what, test := range map[string]struct {
		run  func(p *script)
		want map[string]uint64
	}{
		"a sequence NAK": {func(p *script) {
			p.send(p.nak(wire.NAKSequence, 1))
		}, map[string]uint64{"completer_retry_err": 1, "rcvd_seq_err": 1}},
		"two NAKs for the same loss": {func(p *script) {
			p.send(p.nak(wire.NAKSequence, 1), p.nak(wire.NAKSequence, 1))
		}, map[string]uint64{"completer_retry_err": 1, "rcvd_seq_err": 2}},
		"a late sequence NAK": {func(p *script) {
			p.send(p.ack(1), p.nak(wire.NAKSequence, 1))
		}, map[string]uint64{}},
		"a missing READ response": {func(p *script) {
			p.send(p.ack(2))
		}, map[string]uint64{"completer_retry_err": 1}},
		"a missing first packet of a READ response": {func(p *script) {
			p.send(p.ack(1), p.response(wire.ReadResponseLast, 3, 1))
		}, map[string]uint64{"completer_retry_err": 1}},
		"no response": {func(p *script) {
			for range 3 {
				p.advance(scriptTimeout)
			}
		}, map[string]uint64{"completer_retry_err": 3, "local_ack_timeout_err": 3}},
		"no response until the retries end": {func(p *script) {
			for range 4 {
				p.advance(scriptTimeout)
			}
		}, map[string]uint64{"completer_retry_err": 3, "local_ack_timeout_err": 3, "retry_exceeded_err": 1}},
		"RNR NAKs": {func(p *script) {
			for range 2 {
				p.send(p.syndrome(wire.RNRNAK(1), 0))
				p.advance(verbs.RNRDelay(1))
			}
		}, map[string]uint64{"rcvd_rnr_err": 2}},
		"RNR NAKs until the retries end": {func(p *script) {
			for range 3 {
				p.send(p.syndrome(wire.RNRNAK(1), 0))
				p.advance(verbs.RNRDelay(1))
			}
		}, map[string]uint64{"rcvd_rnr_err": 3, "retry_rnr_exceeded_err": 1}},
		"responses": {func(p *script) {
			p.send(p.ack(1), p.response(wire.ReadResponseFirst, 2, scriptMTU), p.response(wire.ReadResponseLast, 3, 1))
		}, map[string]uint64{}},
	} {
		t.Run(what, func(t *testing.T) {
			p := newScript(t)
			p.post(1, verbs.OpSend, 1)
			p.post(2, verbs.OpSend, 1)
			p.post(3, verbs.OpRead, scriptMTU+1)
			test.run(p)
			require.Equal(t, test.want, p.dev.Counted())
		})
	}
}

func TestCountersOfTheResponder(t *testing.T) {
	for what, test := range map[string]struct {
		run  func(p *script)
		want map[string]uint64
	}{
		"a duplicate of a SEND": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.request(wire.SendOnly, 0, 1))
		}, map[string]uint64{"duplicate_request": 1}},
		"duplicates of a READ": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.read(1, 0, 1))
			p.send(p.read(1, 0, 1))
			p.send(p.read(1, 0, 1))
		}, map[string]uint64{"duplicate_request": 2}},
		"one gap": {func(p *script) {
			p.send(p.request(wire.SendOnly, 1, 1), p.request(wire.SendOnly, 2, 1))
		}, map[string]uint64{"out_of_seq_request": 1}},
		"two gaps": {func(p *script) {
			p.send(p.read(1, 0, 1))
			p.send(p.request(wire.SendOnly, 0, 1), p.read(3, 0, 1))
		}, map[string]uint64{"out_of_seq_request": 2}},
		"no buffer": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.request(wire.SendOnly, 1, 1), p.read(2, 0, 1))
			p.send(p.request(wire.SendOnly, 1, 1))
		}, map[string]uint64{"out_of_buffer": 2, "send_rnr_err": 2}},
		"no error": {func(p *script) {
			p.send(p.request(wire.SendOnly, 0, 1), p.read(1, 0, 1))
		}, map[string]uint64{}},
	} {
		t.Run(what, func(t *testing.T) {
			p := newScript(t)
			p.e.Recv(1, 0, 1)
			test.run(p)
			require.Equal(t, test.want, p.dev.Counted())
		})
	}
}

// Each side of a connection counts the losses and duplicates that it detects.
func TestCountersOfANetwork(t *testing.T) {
	const packets = 10
	s := newSim(t, 1, netsim.Config{})
	a, b := s.NewEnd(), s.NewEnd()
	s.Join(a, b, func(attr *verbs.QPAttr) { attr.PathMTU = verbs.MTU256 })
	write := func() {
		a.Post(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled,
			SGEs: []verbs.SGE{verbs.SGEOf(a.MR, 0, packets*256)}, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	}
	for _, step := range []struct {
		why string
		// faults of the network for the first request; the second request has no faults
		net  netsim.Config
		want map[string]uint64
	}{
		{"no packet is lost", netsim.Config{}, map[string]uint64{}},
		{"all packets are duplicated", netsim.Config{Duplicate: 1}, map[string]uint64{"duplicate_request": packets}},
		{"all packets are lost", netsim.Config{Drop: 1}, map[string]uint64{
			"duplicate_request": packets, "out_of_seq_request": 1, "rcvd_seq_err": 1, "completer_retry_err": 1}},
	} {
		s.Net.Config = step.net
		write()
		s.Net.Config = netsim.Config{}
		write()
		s.Settle()
		require.Len(t, a.DrainCQ(), 2)
		require.Equal(t, step.want, s.Dev.Counted(), step.why)
	}
}
