//go:build linux

package reactortest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/reactortest"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestAnswers runs clients that send requests, and servers that answer them, while the
// network, the processes and the users of the connections do their worst. Each request is
// answered once, or the end of its connection is reported. When the faults have ended, each
// client gets answers again.
func TestAnswers(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 50
	}
	if f := flag.Lookup("reactortest.seed").Value.String(); f != "0" {
		seed, err := strconv.ParseUint(f, 10, 64)
		require.NoError(t, err)
		runAnswers(t, seed)
		return
	}
	before := debug.SetGCPercent(400) // Runs are short, and leave little.
	t.Cleanup(func() { debug.SetGCPercent(before) })
	// The limit of descriptors is that of the whole program.
	for seed := uint64(aloneEvery); seed <= seeds && !t.Failed(); seed += aloneEvery {
		runAnswers(t, seed)
	}
	var next atomic.Uint64
	for i := range 2 * runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for seed := next.Add(1); seed <= seeds && !t.Failed(); seed = next.Add(1) {
				if seed%aloneEvery != 0 {
					runAnswers(t, seed)
				}
			}
		})
	}
}

// aloneEvery is how many seeds there are for each one whose run limits descriptors.
const aloneEvery = 8

// The same seed gives the same run, on every processor, and with and without the race
// detector. A change of the library may change the digests: then take the new ones from the
// message of this test.
func TestAnswersDigest(t *testing.T) {
	want := []uint64{0xb496b46422abb8b9, 0x860b45bcf4a166fd, 0xbe23ce17532fb38b, 0xe6a63d82273ce2f5, 0xa40c36f9bfdebf07}
	var got []uint64
	for seed := range uint64(len(want)) {
		var digests [2]uint64
		for i := range digests {
			digests[i] = runAnswers(t, seed+1)
		}
		require.Equal(t, digests[0], digests[1], "two runs of seed %d differ", seed+1)
		got = append(got, digests[0])
	}
	require.Equal(t, want, got, "if the library has changed, the new digests are %#v", got)
}

// pattern has the bytes of all messages.
var pattern = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// answers is one run.
type answers struct {
	t   *testing.T
	w   *reactortest.World
	rng *rand.Rand
	setup
	hosts  []*reactortest.Host
	nodes  []*node
	dialed []*end // client's ends of all connections, by the number in the request
	served []*end // server's ends of all accepted requests
	undo   []undo // what ends the present faults

	stopping bool          // clients dial and send no more
	calm     time.Duration // time of the last fault; 0 before
	failed   bool
}

// A setup is what the seed chooses for a run.
type setup struct {
	phase    time.Duration // time with faults
	pause    time.Duration // mean pause of a client between bursts
	bound    time.Duration // time after the last fault in which each client gets an answer
	burst    int           // largest number of requests without pause
	closing  int           // probability that a user closes its connection at an event, in 1/1024
	limits   bool          // users set deadlines and idle timeouts
	oneSided bool          // clients use the memory of servers
	// lengths of messages
	maxMessage, maxLong int
	// faults that happen, by their number in the method fault
	faults        []int
	noDescriptors bool // one of them is faultDescriptors
	harmed        bool // there are faults
	network       reactortest.Faults
	server        reactor.Config
	client        reactor.Config
	device        soft.Config
}

// runAnswers runs one seed.
func runAnswers(t *testing.T, seed uint64) (digest uint64) {
	reactortest.Run(t, seed, func(t *testing.T, w *reactortest.World) {
		a := &answers{t: t, w: w, rng: w.Rand()}
		a.choose(seed%aloneEvery == 0)
		a.build()
		for _, n := range a.nodes {
			n.start()
		}
		a.doFaults()
		a.settle()
		a.end()
		a.check()
		digest = w.Digest()
	})
	return digest
}

func (a *answers) failf(format string, args ...any) {
	a.t.Helper()
	if !a.failed {
		a.failed = true
		a.t.Errorf("at %v: "+format, append([]any{a.w.Now()}, args...)...)
	}
}

// chance returns true with the probability 1/n.
func (a *answers) chance(n int) bool { return a.rng.IntN(n) == 0 }

// closes returns true if a user is to close its connection. The weight says how often that
// is in comparison.
func (a *answers) closes(weight int) bool {
	return !a.stopping && a.calm == 0 && a.closing > 0 && a.rng.IntN(1024) < a.closing*weight
}

// upTo returns a time of less than d.
func (a *answers) upTo(d time.Duration) time.Duration { return time.Duration(a.rng.Int64N(int64(d))) }

// length chooses the length of a message.
func (a *answers) length() int {
	switch n := a.rng.IntN(16); {
	case n == 0:
		return 0
	case n == 1:
		return a.maxMessage
	case n == 2 && a.maxLong > 0:
		return a.maxMessage + 1 + a.rng.IntN(a.maxLong-a.maxMessage)
	case n < 8:
		return a.rng.IntN(a.maxMessage + 1)
	default:
		return a.rng.IntN(min(128, a.maxMessage))
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// choose sets the setup. If the run is alone in the program, it may limit descriptors.
func (a *answers) choose(alone bool) {
	r := a.rng
	a.phase = pick[time.Duration](r, 30, 100, 300) * time.Millisecond
	a.pause = a.phase / time.Duration(pick(r, 8, 20))
	a.burst = pick(r, 1, 4, 12)
	a.closing = pick(r, 0, 0, 2, 20)
	a.limits = a.chance(3)
	a.oneSided = a.chance(2)
	a.maxMessage = pick(r, 256, 1024, 4096)
	c := reactor.Config{
		MaxMessage:  a.maxMessage,
		MaxInFlight: pick(r, 0, 2, 4, 16),
		Memory:      reactor.Memory{SharedRecvBuffers: pick(r, 0, 0, -1, 4, 16)},
		Limits:      reactor.Limits{CompletionBudget: pick(r, 0, 0, 1, 3), SafetyTimeout: pick[time.Duration](r, 0, 20*time.Millisecond, time.Second)},
		Transport:   reactor.Transport{SignalEvery: pick(r, 0, 0, 1), MaxInline: pick(r, 0, 0, -1), AckTimeout: pick[time.Duration](r, 4, 16, 60) * time.Millisecond},
	}
	if a.chance(3) {
		a.maxLong = pick(r, 20<<10, 300<<10)
		c.MaxLongMessage = a.maxLong
	}
	a.bound = 2 * time.Minute
	if !a.chance(8) {
		a.bound = 20 * time.Second
		c.Limits.ConnectTimeout, c.Limits.DecisionTimeout = 2*time.Second, 200*time.Millisecond
		c.Limits.DrainTimeout, c.Transport.Keepalive = 300*time.Millisecond, pick[time.Duration](r, 20, 100, 1000, 10_000)*time.Millisecond
	}
	a.client, a.server = c, c
	a.client.NumLoops, a.server.NumLoops = 1+r.IntN(2), 1+r.IntN(3)
	a.server.Memory.SharedRecvBuffers = pick(r, 0, -1, 4, 16)
	a.device = soft.Config{RingBytes: pick(r, 0, 4<<10), RingSlots: pick(r, 0, 8), PrivateRegions: a.chance(2)}
	a.network.Delay = pick[time.Duration](r, 0, 10, 500) * time.Microsecond
	a.chooseFaults(alone)
}

// Faults, beside those of the network.
const (
	faultNetwork = iota
	faultCut
	faultStop
	faultStopHost
	faultKill
	faultKillHost
	faultShutdown
	faultDescriptors
)

func (a *answers) chooseFaults(alone bool) {
	if a.chance(10) {
		return // a run without faults
	}
	for f := range faultDescriptors {
		if a.chance(3) {
			a.faults = append(a.faults, f)
		}
	}
	if alone {
		a.noDescriptors = true
		a.faults = append(a.faults, faultDescriptors)
	}
	a.chooseNetwork()
	a.harmed = true
}

// chooseNetwork chooses the faults of the network.
func (a *answers) chooseNetwork() {
	r := a.rng
	f := &a.network
	f.Loss, f.Duplicate, f.Damage = pick(r, 0, 0.01, 0.1), pick(r, 0, 0.01, 0.1), pick(r, 0, 0.01, 0.1)
	f.Reorder, f.Jitter = pick(r, 0, 0.01, 0.2), pick[time.Duration](r, 1, 100, 5000)*time.Microsecond
}

// build makes the hosts and nodes: one or two servers on a host each, clients on their
// hosts, which use the local path, and one client on each other host, because only one device
// of a host can use the wire path.
func (a *answers) build() {
	servers := 1 + a.rng.IntN(2)
	for i := range max(servers, 2+a.rng.IntN(2)) {
		a.hosts = append(a.hosts, a.w.Host(fmt.Sprint("host", i)))
	}
	for i, h := range a.hosts[:servers] {
		a.nodes = append(a.nodes, &node{a: a, name: fmt.Sprint("server", i), host: h, serves: true})
	}
	all := slices.Clone(a.nodes)
	if servers == 2 && (len(a.hosts) == 2 || a.chance(2)) {
		all[1].connect(all[0]) // a server is a client of the other one
	}
	for i, h := range a.hosts[servers:] {
		n := &node{a: a, name: fmt.Sprint("client", i), host: h}
		for _, s := range all {
			n.connect(s)
		}
		a.nodes = append(a.nodes, n)
	}
	for i := range 1 + a.rng.IntN(2) {
		s := all[a.rng.IntN(len(all))]
		n := &node{a: a, name: fmt.Sprint("local", i), host: s.host}
		n.connect(s)
		a.nodes = append(a.nodes, n)
	}
	a.w.SetFaults(a.network)
}

// A node is a client or a server, or both. It has a process, and a new one after that was
// killed.
type node struct {
	a        *answers
	name     string
	host     *reactortest.Host
	serves   bool
	sessions []*session

	starts   int // number of processes so far
	process  *reactortest.Process
	device   cm.Provider
	instance *instance     // present engine; nil while there is none
	paused   time.Duration // when the process has gone on last
}

// connect adds one or two sessions with a server.
func (n *node) connect(server *node) {
	for range 1 + n.a.rng.IntN(2) {
		n.sessions = append(n.sessions, &session{node: n, server: server})
	}
}

func (n *node) addr() netip.AddrPort { return n.host.AddrPort(7471) }

// An instance is an engine of a node.
type instance struct {
	reactor.BaseHandler
	node   *node
	engine *reactor.Engine
	region *reactor.Region // areas
	areas  int             // number of areas that were given out
	// all messages are parts of this region
	pattern *reactor.Region

	loopsEnded int
	stopped    bool // the engine is shutting down
	killed     bool // the process was killed
}

func (in *instance) hasEnded() bool { return in.loopsEnded == in.engine.NumLoops() }

// start makes an engine for a node that has none, and a process if necessary.
func (n *node) start() {
	a := n.a
	cfg := a.client
	if n.serves {
		cfg = a.server
	}
	if n.process == nil {
		n.starts++
		n.process = n.host.Process(fmt.Sprint(n.name, ".", n.starts))
		n.device = n.process.Open(&a.device)
	}
	n.proceed() // Nobody can start an engine in a process that has stopped.
	in := &instance{node: n}
	n.instance = in
	var err error
	cfg.OnShutdown = in.onShutdown
	in.engine, err = reactor.New(n.device, in, &cfg)
	require.NoError(a.t, err)
	require.NoError(a.t, in.engine.Start())
	in.region, err = in.engine.Alloc(areaSize*areaCount, regionAccess)
	require.NoError(a.t, err)
	in.pattern, err = in.engine.Register(pattern, regionAccess)
	require.NoError(a.t, err)
	if n.serves {
		_, err = in.engine.Listen(n.addr(), nil)
		require.NoError(a.t, err)
	}
	for _, s := range n.sessions {
		s.in = in
		s.dial()
	}
}

// proceed ends Process.Stop and Host.Stop for a node.
func (n *node) proceed() {
	n.paused = n.a.w.Now()
	if n.process != nil {
		n.process.Continue()
	}
}

// stop begins to shut down the engine of a node.
func (n *node) stop() {
	n.a.w.Logf("%s stops its engine", n.name)
	n.instance.stopped = true
	n.instance.engine.Stop()
}

// abort ends an engine that stops, or not. Nobody can wait for a process that has stopped.
func (n *node) abort() {
	if n.instance == nil || !n.instance.stopped || n.a.chance(2) {
		return
	}
	n.a.w.Logf("%s aborts its engine", n.name)
	n.proceed()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.instance.engine.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, verbs.ErrBusy) {
		n.a.failf("%s: the engine has ended with %v", n.name, err)
	}
}

// finish checks an engine that has ended, and removes it.
func (n *node) finish() {
	in := n.instance
	if err := in.engine.Wait(); err != nil {
		n.a.failf("%s: the engine has ended with %v", n.name, err)
	}
	if lost := in.engine.Stats().Rescues; lost > 0 {
		n.a.failf("%s: %d wake-ups were lost", n.name, lost)
	}
	n.instance = nil
}

// kill kills the process of a node.
func (n *node) kill() {
	if n.instance != nil {
		n.instance.killed = true
		n.instance = nil
	}
	if n.process != nil {
		n.process.Kill()
		n.process = nil
	}
}

// onShutdown is Config.OnShutdown.
func (in *instance) onShutdown(*reactor.Loop) {
	in.loopsEnded++
	if !in.stopped {
		in.node.a.failf("the engine of %s ends, but nobody has stopped it", in.node.name)
	}
}

// OnConnectRequest implements reactor.Handler.
func (in *instance) OnConnectRequest(req *reactor.ConnRequest) {
	a := in.node.a
	if n := a.rng.IntN(64); n == 0 && a.harmed {
		_ = req.Reject(nil)
		return
	} else if n == 1 {
		return // The request expires.
	}
	accept := func() {
		client := a.dialed[binary.BigEndian.Uint32(req.PrivateData())]
		e := &end{a: a, in: in, name: in.node.name + " < " + client.in.node.name, peer: client}
		r := &answerer{end: e}
		e.user = r
		p := &reactor.AcceptOptions{UserData: e}
		if a.oneSided {
			p.PrivateDataFor = r.privateData
		}
		if req.Accept(p) == nil {
			a.served = append(a.served, e)
		}
	}
	if a.chance(4) {
		in.after(a.upTo(a.pause), accept)
		return
	}
	accept()
}

// OnAcceptError implements reactor.Handler.
func (in *instance) OnAcceptError(req *reactor.ConnRequest, err error) {
	req.UserData().(*end).failToOpen("OnAcceptError", err)
}

// OnOpen implements reactor.Handler, as the methods that follow. They are called for
// connections of clients of this node.
func (in *instance) OnOpen(c *reactor.Conn) { c.UserData.(*end).OnOpen(c) }

// OnMessage implements reactor.Handler.
func (in *instance) OnMessage(c *reactor.Conn, m reactor.Message) { c.UserData.(*end).OnMessage(c, m) }

// OnCompletion implements reactor.Handler.
func (in *instance) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	c.UserData.(*end).OnCompletion(c, op, err)
}

// OnWritable implements reactor.Handler.
func (in *instance) OnWritable(c *reactor.Conn) { c.UserData.(*end).OnWritable(c) }

// OnClose implements reactor.Handler.
func (in *instance) OnClose(c *reactor.Conn, err error) { c.UserData.(*end).OnClose(c, err) }

// An undo ends a fault at a time.
type undo struct {
	at time.Duration
	fn func()
}

// later ends a fault after a time.
func (a *answers) later(d time.Duration, fn func()) {
	a.undo = append(a.undo, undo{a.w.Now() + d, fn})
	slices.SortStableFunc(a.undo, func(x, y undo) int { return int(x.at - y.at) })
}

// doFaults lets time pass, and makes and ends faults.
func (a *answers) doFaults() {
	between := 1 + a.phase/time.Duration(1+a.rng.IntN(10))
	next := a.upTo(between)
	for !a.failed {
		at := min(next, a.phase)
		if len(a.undo) > 0 {
			at = min(at, a.undo[0].at)
		}
		a.w.For(max(0, at-a.w.Now()))
		switch {
		case len(a.undo) > 0 && a.undo[0].at <= at:
			fn := a.undo[0].fn
			a.undo = a.undo[1:]
			fn()
		case at == a.phase:
			return
		default:
			if len(a.faults) > 0 {
				a.fault(pick(a.rng, a.faults...))
			}
			next = at + 1 + a.upTo(2*between)
		}
	}
}

// fault makes one fault.
func (a *answers) fault(f int) {
	h, o := pick(a.rng, a.hosts...), pick(a.rng, a.hosts...)
	n := pick(a.rng, a.nodes...)
	d := a.upTo(a.phase / 4)
	p := n.process
	switch f {
	case faultNetwork:
		a.chooseNetwork()
		if h == o {
			a.w.SetFaults(a.network)
			return
		}
		h.SetFaultsTo(o, a.network)
	case faultCut:
		a.w.Cut(h, o)
		a.later(d, func() { a.w.Heal(h, o) })
	case faultStop:
		if p != nil {
			p.Stop()
			a.later(d, n.proceed)
		}
	case faultStopHost:
		h.Stop()
		a.later(d, func() { a.continueHost(h) })
	case faultKill:
		n.kill()
		a.later(d, n.restart)
	case faultKillHost:
		a.killHost(h, d)
	case faultShutdown:
		if n.instance != nil && !n.instance.stopped {
			n.stop()
			a.later(d/4, n.abort)
			a.later(d, n.restart)
		}
	case faultDescriptors:
		if p != nil {
			p.SetNoDescriptors(true)
			a.later(d/4, func() { p.SetNoDescriptors(false) })
		}
	}
}

func (a *answers) continueHost(h *reactortest.Host) {
	h.Continue()
	for _, n := range a.nodes {
		if n.host == h {
			n.proceed()
		}
	}
}

func (a *answers) killHost(h *reactortest.Host, d time.Duration) {
	h.Kill()
	for _, n := range a.nodes {
		if n.host == h {
			n.kill()
			a.later(d, n.restart)
		}
	}
}

// restart makes a new engine for a node, when the old one has ended.
func (n *node) restart() {
	switch in := n.instance; {
	case in == nil:
	case !in.stopped:
		return
	case !in.hasEnded():
		n.a.later(time.Millisecond, n.restart)
		return
	default:
		n.finish()
	}
	n.start()
}

// settle ends the faults, and waits until each client has an answer.
func (a *answers) settle() {
	list := a.undo
	a.undo = nil
	for _, u := range list {
		u.fn()
	}
	calm := reactortest.Faults{Delay: a.network.Delay}
	a.w.SetFaults(calm)
	for _, h := range a.hosts {
		for _, o := range a.hosts {
			h.SetFaultsTo(o, calm)
		}
	}
	a.undo = nil
	a.calm = a.w.Now()
	a.w.Logf("the faults have ended")
	a.until("not every client has an answer, or not every connection of a dead peer has ended,", func() bool {
		for _, n := range a.nodes {
			if in := n.instance; in != nil && in.stopped && in.hasEnded() {
				n.finish()
				n.start()
			}
			if n.instance == nil {
				n.start()
			}
			for _, s := range n.sessions {
				if !s.fresh {
					return false
				}
			}
		}
		return !slices.ContainsFunc(a.dialed, (*end).isHalf) && !slices.ContainsFunc(a.served, (*end).isHalf)
	})
}

// isHalf reports whether this side of a connection is open, and the other one is not.
func (e *end) isHalf() bool {
	p := e.peer
	return (e.state == endOpen || e.state == endClosing) && !e.in.killed && p != nil && (p.in.killed || p.state > endClosing)
}

// until lets time pass until done returns true.
func (a *answers) until(otherwise string, done func() bool) {
	end := a.w.Now() + a.bound
	for !a.failed && !done() {
		if a.w.Now() > end {
			a.failf("%s within %v", otherwise, a.bound)
		}
		a.w.For(10 * time.Millisecond)
	}
}

// end ends the engines.
func (a *answers) end() {
	a.stopping = true
	for _, n := range a.nodes {
		if n.instance != nil && !n.instance.stopped {
			n.stop()
		}
	}
	a.until("an engine has not ended", func() bool {
		return !slices.ContainsFunc(a.nodes, func(n *node) bool { return n.instance != nil && !n.instance.hasEnded() })
	})
	for _, n := range a.nodes {
		if !a.failed && n.instance != nil {
			n.finish()
		}
	}
}

// check checks what the ends of all connections have in the end.
func (a *answers) check() {
	if a.failed {
		// The engines do not end if the library does not work.
		return
	}
	for _, e := range slices.Concat(a.dialed, a.served) {
		if !e.in.killed {
			e.expect(e.state == endClosed || e.state == endFailed, "the connection is %v in the end", e.state)
		}
	}
	for _, r := range a.served {
		if c := r.peer; c.peer == r {
			r.checkDelivered(c)
			c.checkDelivered(r)
		}
	}
}

// checkDelivered checks that the other side has got what was confirmed.
func (e *end) checkDelivered(to *end) {
	if e.in.killed || e.a.maxLong > 0 || to.in.killed || to.byUser || to.state != endClosed {
		return
	}
	messages := 0
	for _, o := range e.ops[:e.confirmed] {
		if o.message {
			messages++
		}
	}
	e.expect(messages <= to.got, "%d messages were confirmed, but %d were received", messages, to.got)
}
