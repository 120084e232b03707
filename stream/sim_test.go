//go:build linux

package stream_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/stream"
)

// Times of a simulation.
const (
	simAckTimeout = 4 * time.Millisecond // rounded up by the device to 4.2 ms
	simKeepalive  = 2 * time.Second
	// The longest outage that no stream notices: several of the eight attempts are left.
	simShort = 3 * simAckTimeout
)

// A simulation has a few processes in a world, and streams between them.
type simulation struct {
	require   *require.Assertions
	w         *reactortest.World
	rng       *rand.Rand
	wire      bool
	processes []*simProcess
	sides     []*simSide // those with an even number dial, and the next one accepts
	ends      *simCount
}

// A simCount counts how streams have ended.
type simCount struct{ nothing, closed, resets int }

type simProcess struct {
	sim    *simulation
	number int
	*reactortest.Process
	engine *reactor.Engine
	killed bool
	ends   bool   // its engine was stopped
	hung   bool   // it was stopped for longer than its peers wait
	cut    []bool // by number of another process: the network was cut for longer than that
	// buffers of the streams that the process accepts
	buffers stream.Buffers
}

// simMessages is about how many messages a side sends at most.
const simMessages = 30

// mayFail reports whether something has happened that ends streams between two processes.
func (sim *simulation) mayFail(a, b *simProcess) bool {
	return a.killed || b.killed || a.hung || b.hung || a.cut[b.number]
}

func (p *simProcess) stopEngine() {
	if p.killed {
		return
	}
	p.sim.w.Logf("process%d stops its engine", p.number)
	p.ends = true
	p.engine.Stop()
}

// A simEvent is something that the test does.
type simEvent struct {
	at time.Duration
	do func()
}

// simulate opens streams, and disturbs them.
func simulate(t *testing.T, w *reactortest.World, wire bool, ends *simCount) {
	sim := &simulation{require: require.New(t), w: w, rng: w.Rand(), wire: wire, ends: ends}
	if wire {
		sim.setFaults()
	}
	sim.addProcesses()
	// Streams begin and are disturbed within this time.
	scale := time.Microsecond << sim.rng.IntN(20)
	var events []simEvent
	for range 1 + sim.rng.IntN(5) {
		events = append(events, simEvent{sim.time(scale), sim.addStream()})
	}
	for range sim.rng.IntN(4) {
		events = append(events, sim.disturb(sim.time(scale))...)
	}
	slices.SortStableFunc(events, func(a, b simEvent) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		w.For(e.at - w.Now())
		e.do()
	}
	w.Until(2*time.Minute, func() bool { return sim.each((*simSide).settled) })
	for _, s := range sim.sides {
		if s.stream != nil && !s.process.killed && !s.over {
			sim.require.NoError(s.stream.Conn().Loop().Post(s.close))
		}
	}
	w.Until(2*time.Minute, func() bool {
		return sim.each(func(s *simSide) bool { return s.stream == nil || s.over || s.process.killed })
	})
	for _, s := range sim.sides {
		s.check()
	}
}

func (sim *simulation) each(is func(*simSide) bool) bool {
	return !slices.ContainsFunc(sim.sides, func(s *simSide) bool { return !is(s) })
}

// time returns a random time of at most limit.
func (sim *simulation) time(limit time.Duration) time.Duration {
	return 1 + time.Duration(sim.rng.Int64N(int64(limit)))
}

func (sim *simulation) setFaults() {
	part := func(limit float64) float64 { return limit * sim.rng.Float64() * float64(sim.rng.IntN(2)) }
	sim.w.SetFaults(reactortest.Faults{
		Loss: part(0.05), Duplicate: part(0.1), Damage: part(0.02), Reorder: part(0.3),
		Delay: sim.time(50 * time.Microsecond), Jitter: sim.time(100 * time.Microsecond),
	})
}

func (sim *simulation) addProcesses() {
	n := 2 + sim.rng.IntN(2)
	host := sim.w.Host("host0")
	for i := range n {
		if i > 0 && sim.wire {
			host = sim.w.Host(fmt.Sprint("host", i))
		}
		p := &simProcess{sim: sim, number: i, Process: host.Process(fmt.Sprint("process", i)), cut: make([]bool, n), buffers: sim.buffers()}
		p.engine = p.Start(reactor.BaseHandler{}, &reactor.Config{
			NumLoops:    1 + sim.rng.IntN(2),
			MaxInFlight: 16 + sim.rng.IntN(48)*sim.rng.IntN(2),
			Limits:      reactor.Limits{SafetyTimeout: time.Second},
			Transport:   reactor.Transport{AckTimeout: simAckTimeout, Keepalive: simKeepalive},
		})
		if sim.wire && sim.rng.IntN(4) == 0 {
			p.SetReceiveLimit(1 + sim.rng.IntN(16))
		}
		_, err := stream.Listen(p.engine, host.AddrPort(simPort+uint16(i)), simHandler{process: p}, &stream.ListenOptions{Buffers: p.buffers})
		sim.require.NoError(err)
		sim.processes = append(sim.processes, p)
	}
}

func (sim *simulation) buffers() stream.Buffers {
	return stream.Buffers{Receive: 128 + sim.rng.IntN(1<<sim.rng.IntN(17)), Send: 1 + sim.rng.IntN(1<<sim.rng.IntN(17))}
}

// twoProcesses returns two different processes.
func (sim *simulation) twoProcesses() (a, b *simProcess) {
	n := len(sim.processes)
	i := sim.rng.IntN(n)
	return sim.processes[i], sim.processes[(i+1+sim.rng.IntN(n-1))%n]
}

// addStream returns a function that opens a stream.
func (sim *simulation) addStream() (dial func()) {
	from, to := sim.twoProcesses()
	number := len(sim.sides)
	o := &stream.DialOptions{PrivateData: []byte{byte(number + 1)}, Buffers: sim.buffers()}
	s := sim.addSide(from, min(to.buffers.Receive, o.Buffers.Send))
	peer := sim.addSide(to, min(o.Buffers.Receive, to.buffers.Send))
	s.peer, peer.peer, o.UserData = peer, s, s
	return func() {
		if from.killed || from.ends {
			s.refused = true
			return
		}
		at := to.Host().AddrPort(simPort + uint16(to.number))
		sim.require.NoError(stream.Dial(from.engine, at, simHandler{process: from}, o))
	}
}

// addSide adds a side that can have about the given number of bytes outstanding.
func (sim *simulation) addSide(p *simProcess, outstanding int) *simSide {
	piece := 1 << sim.rng.IntN(15)
	s := &simSide{
		sim: sim, process: p, name: fmt.Sprintf("side %d of %s", len(sim.sides), p.Host().Name()),
		rng: rand.New(rand.NewPCG(sim.rng.Uint64(), 0)), piece: piece,
		out: make([]byte, sim.rng.IntN(simMessages*min(piece, outstanding))),
		end: simEnd(sim.rng.IntN(int(simEnds))), aborts: -1,
	}
	for i := range s.out {
		s.out[i] = byte(s.rng.Uint32())
	}
	if sim.rng.IntN(8) == 0 {
		s.aborts = sim.rng.IntN(1 + len(s.out))
	}
	if sim.rng.IntN(2) == 0 {
		s.pause = time.Microsecond << sim.rng.IntN(20)
	}
	sim.sides = append(sim.sides, s)
	return s
}

// disturb returns the events of a disturbance.
func (sim *simulation) disturb(at time.Duration) []simEvent {
	p, other := sim.twoProcesses()
	lasts, long := sim.time(simShort), sim.rng.IntN(4) == 0
	if long {
		lasts += 10 * simKeepalive
	}
	switch what := sim.rng.IntN(6); {
	case what == 0:
		return []simEvent{{at, func() { p.killed = true; p.Kill() }}}
	case what == 1:
		return []simEvent{{at, p.stopEngine}}
	case what < 4:
		return []simEvent{
			{at, func() { p.hung = p.hung || long; p.Stop() }},
			{at + lasts, p.Continue},
		}
	}
	a, b := p.Host(), other.Host()
	return []simEvent{
		{at, func() { p.cut[other.number], other.cut[p.number] = long, long; sim.w.Cut(a, b) }},
		{at + lasts, func() { sim.w.Heal(a, b) }},
	}
}

// TestSimulation checks that streams carry the bytes that were written, and report their
// ends once and with the right error, whatever happens to packets and processes.
func TestSimulation(t *testing.T) {
	n := 500
	if testing.Short() {
		n = 10
	}
	for i, name := range []string{"local", "wire"} {
		t.Run(name, func(t *testing.T) {
			var ends simCount
			reactortest.Seeds(t, n, func(t *testing.T, w *reactortest.World) { simulate(t, w, i == 1, &ends) })
			t.Logf("%+v", ends)
		})
	}
}

// TestSimulationRepeats checks that two runs of a seed are the same.
func TestSimulationRepeats(t *testing.T) {
	n := uint64(50)
	if testing.Short() {
		n = 2
	}
	for i, name := range []string{"local", "wire"} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= n; seed++ {
				digest := func() (d uint64) {
					reactortest.Run(t, seed, func(t *testing.T, w *reactortest.World) {
						simulate(t, w, i == 1, new(simCount))
						d = w.Digest()
					})
					return d
				}
				want := digest()
				require.Equal(t, want, digest(), "seed %d", seed)
				t.Logf("seed %d: digest %x", seed, want)
			}
		})
	}
}
