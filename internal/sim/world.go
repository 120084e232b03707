//go:build linux

// Package sim runs processes of simulated hosts in virtual time, one after the other, on
// the goroutine of a test. It implements package simhost, for package reactortest.
//
// A World must be made and used inside a bubble of testing/synctest, whose clock it
// advances. The same seed and calls give the same run.
package sim

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/testutil/netsim"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A World has hosts, their network and their processes. Only the goroutine that has made
// it, and functions that it runs, may use it.
type World struct {
	// Links returns the faults of the packets from one host to another one.
	Links func(from, to *Host) netsim.Config

	seed    uint64
	id      uint64     // number of the world in this program
	rng     *rand.Rand // chooses what runs next
	start   time.Time
	ahead   time.Duration // how far the world is ahead of the clock of the bubble; see pass
	hosts   []*Host
	tasks   []*task
	current *task // task that runs; nil while the test runs
	timers  timerheap.Heap
	sockets []socket // in the order of opening
	fds     *table
	net     *netsim.Net
	wake    chan struct{} // has an element after call
	mu      sync.Mutex    // protects calls
	calls   []func()      // functions that step calls
	digest  hash.Hash64
	buf     []byte // memory of record
	log     []string
	// descriptors that wakeTasks polls, and their tasks
	polled  []unix.PollFd
	pollers []*task
}

// New makes a world without hosts.
func New(seed uint64) *World {
	return &World{
		seed: seed, id: worlds.Add(1), fds: newTable(), rng: random(seed, 0), start: time.Now(), net: netsim.New(seed, netsim.Config{}),
		wake: make(chan struct{}, 1), digest: fnv.New64a(),
		Links: func(*Host, *Host) netsim.Config { return netsim.Config{} },
	}
}

// Close kills all processes, and releases what they had. The goroutine that has made the
// world must end soon: see newTable.
func (w *World) Close() {
	for _, h := range w.hosts {
		for _, p := range h.processes {
			p.Kill()
		}
	}
	w.fds.closeAll()
}

// random returns a generator. The stream distinguishes generators with the same seed.
func random(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// Now returns the time since the world was made, by the clock of the bubble.
func (w *World) Now() time.Duration { return time.Since(w.start) }

// now returns the time of the world: see pass.
func (w *World) now() time.Duration { return w.Now() + w.ahead }

// Digest returns a number that is the same for two runs that were the same: same events in
// the same order at the same times.
func (w *World) Digest() uint64 { return w.digest.Sum64() }

// Log adds a line to the log and to the digest.
func (w *World) Log(line string) {
	w.record(line)
	w.log = append(w.log, fmt.Sprintf("%12v  %s", w.now(), line))
	if len(w.log) > 2*logLines {
		w.log = slices.Delete(w.log, 0, logLines)
	}
}

// Lines returns the last lines of the log.
func (w *World) Lines() []string { return w.log[max(0, len(w.log)-logLines):] }

// logLines is how many lines of the log are kept at least. Arbitrary.
const logLines = 200

// record adds an event to the digest.
func (w *World) record(event string, numbers ...uint64) {
	b := binary.BigEndian.AppendUint64(w.buf[:0], uint64(w.now()))
	b = append(b, event...)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	_, _ = w.digest.Write(b)
	w.buf = b
}

// A task is a function that the world runs until it waits for something; see Process.Go.
type task struct {
	process *Process
	resume  func() (_ struct{}, alive bool)
	stop    func()
	yield   func(struct{}) bool
	// what the task waits for: the descriptor fd if that is not negative, the time until, and
	// the function done if that is not nil
	fd    int
	until time.Duration
	done  func() bool
	// woken is true when one of these has happened. The task runs at the time at, or later.
	woken bool
	at    time.Duration
}

// Times of a task. Arbitrary, but of the order of those of a real thread.
const (
	// A task that has waited runs after up to wakeTime. One of rareEvery takes up to
	// rareTime, as if another thread had the processor.
	wakeTime  = 4 * time.Microsecond
	rareTime  = 200 * time.Microsecond
	rareEvery = 64
	// A task runs for up to runTime until it waits again.
	runTime = time.Microsecond
)

// wakeAfter returns how long a task takes to run after what it waited for has happened.
func (w *World) wakeAfter() time.Duration {
	if w.rng.IntN(rareEvery) == 0 {
		return time.Duration(w.rng.Int64N(int64(rareTime)))
	}
	return time.Duration(w.rng.Int64N(int64(wakeTime)))
}

const never = time.Duration(1<<63 - 1)

// Run lets time pass until done returns true, or until there is nothing left that could
// happen.
func (w *World) Run(done func() bool) {
	if w.current != nil {
		panic("sim: a callback lets time pass with For only")
	}
	for !done() {
		if !w.step() && !w.pass() {
			break
		}
	}
	for w.ahead > 0 {
		w.advance(w.now())
	}
	synctest.Wait() // Goroutines of the test may have waited for the same time.
}

// RunUntil lets time pass until the given time, even if nothing happens. If a task calls it,
// that task waits, and others run.
func (w *World) RunUntil(end time.Duration) { w.wait(-1, end, nil) }

// Settle lets time pass until no packet is on its way, and no task can run before the next
// timer expires.
func (w *World) Settle() {
	w.Run(func() bool {
		w.wakeTasks(w.now())
		_, packets := w.net.Next()
		return !packets && !w.timers.Due(w.Now()) &&
			!slices.ContainsFunc(w.tasks, func(t *task) bool { return t.woken && !t.process.Stopped })
	})
}

// step delivers packets, fires timers, or runs a task. It returns false if time has to pass
// first.
func (w *World) step() bool {
	select {
	case <-w.wake: // This step looks at everything.
	default:
	}
	w.runCalls()
	now := w.now()
	w.deliver(now)
	w.timers.Expire(w.Now())
	ready := w.ready(now)
	if len(ready) == 0 {
		return false
	}
	w.run(ready[w.rng.IntN(len(ready))])
	return true
}

// ready returns the tasks that can run now. It also finds the tasks that will be ready
// because of what has happened.
func (w *World) ready(now time.Duration) (ready []*task) {
	w.wakeTasks(now)
	for _, t := range w.tasks {
		if t.woken && t.at <= now && !t.process.Stopped {
			ready = append(ready, t)
		}
	}
	return ready
}

// wakeTasks wakes the tasks for which something has happened.
func (w *World) wakeTasks(now time.Duration) {
	w.polled, w.pollers = w.polled[:0], w.pollers[:0]
	for _, t := range w.tasks {
		switch {
		case t.woken:
		case t.until <= w.Now(), t.done != nil && t.done():
			w.wakeTask(t, now)
		case t.fd >= 0:
			w.polled = append(w.polled, unix.PollFd{Fd: int32(t.fd), Events: unix.POLLIN})
			w.pollers = append(w.pollers, t)
		}
	}
	if len(w.polled) == 0 {
		return
	}
	poll(w.polled)
	for i, p := range w.polled {
		if p.Revents != 0 {
			w.wakeTask(w.pollers[i], now)
		}
	}
}

func (w *World) wakeTask(t *task, now time.Duration) {
	t.woken, t.at = true, max(t.at, now+w.wakeAfter())
}

// poll polls descriptors without waiting.
func poll(fds []unix.PollFd) {
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			return
		}
	}
}

// run runs a task until it waits.
func (w *World) run(t *task) {
	w.record("run", uint64(slices.Index(w.tasks, t)))
	t.woken = false
	alive := w.resume(t)
	t.at = w.now() + time.Duration(w.rng.Int64N(int64(runTime)))
	if !alive {
		w.tasks = slices.DeleteFunc(w.tasks, func(o *task) bool { return o == t })
	}
}

// resume makes a task the current one until it waits. It returns false if the task has ended.
func (w *World) resume(t *task) (alive bool) {
	w.current = t
	// A task can end the goroutine of the world: FailNow of a test does.
	defer func() { w.current = nil }()
	defer t.process.limitDescriptors()()
	_, alive = t.resume()
	return alive
}

// pass lets time pass until something happens. It returns false if nothing can.
//
// The clock of the bubble advances when all goroutines wait, which takes as long as some
// thousand instructions. So the arrival of a packet, and the end of the time that a task takes
// to run, do not advance it before clockTick has passed. Timers do, so they never expire early.
func (w *World) pass() bool {
	event, timer := never, never
	if at, ok := w.net.Next(); ok {
		event = time.Duration(at)
	}
	if at, ok := w.timers.Next(); ok {
		timer = at
	}
	for _, t := range w.tasks {
		switch {
		case t.process.Stopped:
		case t.woken:
			event = min(event, t.at)
		default:
			timer = min(timer, t.until)
		}
	}
	switch next := min(event, timer); {
	case next == never:
		return false
	case event < timer && event < w.Now()+clockTick:
		w.ahead = event - w.Now()
	default:
		w.advance(next)
	}
	return true
}

// clockTick is how far a world may be ahead of the clock of its bubble. Arbitrary.
const clockTick = 50 * time.Microsecond

// advance advances the clock of the bubble to a time, or less if call is called.
func (w *World) advance(to time.Duration) {
	now := w.now()
	timer := time.NewTimer(to - w.Now())
	select {
	case <-timer.C:
	case <-w.wake:
		timer.Stop()
		synctest.Wait()
	}
	w.ahead = max(0, now-w.Now())
}

// call makes the world call fn before its next step. Any goroutine of the bubble may call it.
func (w *World) call(fn func()) {
	w.mu.Lock()
	w.calls = append(w.calls, fn)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// runCalls calls the functions that were passed to call.
func (w *World) runCalls() {
	w.mu.Lock()
	calls := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, fn := range calls {
		fn()
	}
}

// wait makes the running task wait, or the test if no task runs.
func (w *World) wait(fd int, until time.Duration, done func() bool) {
	t := w.current
	if t == nil {
		w.waitForTest(&task{fd: fd, until: until, done: done, process: &Process{}})
		return
	}
	t.fd, t.until, t.done = fd, until, done
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
}

// waitForTest lets time pass until what t waits for has happened. For pass, t is a task.
func (w *World) waitForTest(t *task) {
	t.resume = func() (struct{}, bool) { return struct{}{}, false }
	w.tasks = append(w.tasks, t)
	w.Run(func() bool { return w.isReady(t) })
	w.tasks = slices.DeleteFunc(w.tasks, func(o *task) bool { return o == t })
	if !w.isReady(t) {
		panic("sim: the test waits for something that can not happen")
	}
}

func (w *World) isReady(t *task) bool {
	if t.until <= w.Now() || t.done != nil && t.done() {
		return true
	}
	return t.fd >= 0 && readable(t.fd)
}

func readable(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	poll(p)
	return p[0].Revents != 0
}

// killed is the value of the panic that ends a task of a killed process.
type killed struct{}

// A Host has addresses and processes.
type Host struct {
	World     *World
	name      string
	addr      netip.Addr
	bound     map[netip.AddrPort]binding
	processes []*Process
	// Off means that the host is cut off: packets from it and to it are lost.
	Off bool
}

type binding struct {
	process *Process
	receive func(from netip.AddrPort, datagram []byte)
}

// AddHost adds a host with one address. Each host has a /48 network of its own, because a
// device has limits for networks.
func (w *World) AddHost(name string) *Host {
	n := len(w.hosts) + 1
	h := &Host{World: w, name: name, addr: netip.AddrFrom16([16]byte{0: 0xfd, 4: byte(n >> 8), 5: byte(n), 15: 1}), bound: make(map[netip.AddrPort]binding)}
	w.hosts = append(w.hosts, h)
	return h
}

// Addr returns the address of the host.
func (h *Host) Addr() netip.Addr { return h.addr }

// Name returns the name of the host.
func (h *Host) Name() string { return h.name }

func (w *World) hostAt(a netip.Addr) *Host {
	for _, h := range w.hosts {
		if h.addr == a {
			return h
		}
	}
	return nil
}

// send sends a datagram to a port of another host. The packet in the network begins with
// both ports.
func (w *World) send(from, to netip.AddrPort, datagram []byte) {
	src, dst := w.hostAt(from.Addr()), w.hostAt(to.Addr())
	if dst == nil || src.Off || dst.Off {
		return
	}
	b := binary.BigEndian.AppendUint16(nil, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	w.net.Config = w.Links(src, dst)
	w.net.Send(int64(w.now()), netsim.Packet{From: from.Addr(), To: to.Addr(), Data: append(b, datagram...)})
}

// deliver delivers the packets that have arrived.
func (w *World) deliver(now time.Duration) {
	for {
		p, ok := w.net.Receive(int64(now))
		if !ok {
			return
		}
		dst := w.hostAt(p.To)
		if dst.Off || len(p.Data) < 4 {
			continue
		}
		from := netip.AddrPortFrom(p.From, binary.BigEndian.Uint16(p.Data))
		at := netip.AddrPortFrom(p.To, binary.BigEndian.Uint16(p.Data[2:]))
		b, ok := dst.bound[at]
		w.record("packet", uint64(slices.Index(w.hosts, dst)), uint64(len(p.Data)))
		_, _ = w.digest.Write(p.Data[:min(len(p.Data), 4+headerBytes)])
		if ok {
			b.receive(from, p.Data[4:])
		}
	}
}

// headerBytes is how many bytes of a packet count for the digest: the BTH. Later bytes may
// have addresses of memory, which differ from run to run.
const headerBytes = 12

// timer is the state of an fdevent.Timer of a simulated process.
type timer struct {
	timerheap.Timer
	of *fdevent.Timer
}

// OnTimer implements timerheap.Owner.
func (t *timer) OnTimer(*timerheap.Timer) { t.of.Expire() }
