package reactor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/limitlog"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/reactor/internal/memory"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An Engine has loops that share a provider, a Handler and listeners. Any goroutine may
// call its methods. Exception: callbacks can not call Shutdown or Wait, because these
// methods wait for callbacks to return.
type Engine struct {
	provider cm.Provider
	sim      simhost.Host // simulated host of the devices; nil on the real host
	handler  Handler
	cfg      *Config
	log      *limitlog.Logger
	loops    []*Loop
	acceptor *acceptor
	domains  memory.Domains
	regions  regionSet
	qpOwners qpOwners
	heap     *heapReturn
	embedded bool // the application runs the loop of the engine: see NewLoop

	stopping  atomic.Bool   // true after a call of Stop
	chosen    atomic.Uint64 // number of calls of nextLoop
	fullLoops fullLoops
	accepts   atomic.Uint64 // counter for Stats.Accepts
	rejects   atomic.Uint64 // counter for Stats.Rejects
	running   atomic.Int32  // number of loops that have not ended
	done      chan struct{} // This channel is closed when all loops have ended.

	mu      sync.Mutex
	started bool           // Start or NewLoop was called
	devices []*asyncSource // devices whose asynchronous events a loop watches
	err     error          // result of Wait: first error that no callback or method has reported
}

// New makes an engine for the devices of the provider p and the callbacks of h. Any
// goroutine may call New. The caller then calls Start, or only Shutdown.
//
// The provider is from soft.Open or provider.Open. The caller may close
// the provider when the engine has ended. New copies cfg. A nil cfg means the defaults.
//
// With verbs.Caps.ProgressManual each loop needs its own completion vector. So
// Config.NumLoops is limited, and two engines can not use the same device. An engine has its
// devices from New until it has ended. Meanwhile New fails for a second engine, with an error
// that matches verbs.ErrBusy and says where the first one was made.
//
// If p or h is nil, or a value in cfg is not valid, the error is a *verbs.ParamError. New also
// returns an error if a system call or the provider fails.
func New(p cm.Provider, h Handler, cfg *Config) (*Engine, error) {
	const op = "create engine"
	switch {
	case p == nil || isNilPointer(p):
		return nil, operr.Wrap(op, &verbs.ParamError{Field: "provider", NotNumber: true, Reason: "missing"})
	case h == nil:
		return nil, operr.Wrap(op, &verbs.ParamError{Field: "handler", NotNumber: true, Reason: "missing"})
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	devices, err := c.checkDevices(p)
	if err != nil {
		return nil, operr.Wrap(op, err)
	}
	e := &Engine{provider: p, sim: simhost.Of(p), handler: h, cfg: c, log: limitlog.New(c.Logger), heap: newHeapReturn(), done: make(chan struct{})}
	if err := claims.claim(e, devices); err != nil {
		return nil, operr.Wrap(op, err)
	}
	if err := e.open(); err != nil {
		return nil, operr.Wrap(op, firstError(err, e.release()))
	}
	e.running.Store(int32(len(e.loops)))
	return e, nil
}

// isNilPointer reports whether p is a nil pointer, such as the result of a failed
// soft.Open.
func isNilPointer(p cm.Provider) bool {
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// open opens the acceptor and the loops.
func (e *Engine) open() (err error) {
	if e.acceptor, err = openAcceptor(e); err != nil {
		return err
	}
	for i, c := range e.cfg.loops {
		l := &Loop{engine: e, handler: e.handler, cfg: e.cfg, name: c.Name, cpu: c.CPU, index: i}
		l.idle.budget = c.SpinBudget
		l.idle.policy.Store(uint32(c.Idle))
		e.loops = append(e.loops, l)
		if err := l.open(); err != nil {
			return err
		}
	}
	_, err = e.loops[0].watch(e.acceptor.channel.FD(), poller.Readable, e.acceptor)
	return err
}

// deviceClaims has the devices that each belong to one engine of this program; see New.
type deviceClaims struct {
	mu    sync.Mutex
	owner map[verbs.Device]deviceClaim
}

// A deviceClaim is the engine that has a device, and the place in the program at which the
// engine was made.
type deviceClaim struct {
	engine *Engine
	place  string
}

var claims = deviceClaims{owner: make(map[verbs.Device]deviceClaim)}

// claim gives the devices that only one engine can use to e. After an error e has none. A
// simulated engine has no claims, because its process may be killed.
func (d *deviceClaims) claim(e *Engine, devices []verbs.Device) error {
	if e.sim != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	devices = slices.DeleteFunc(slices.Clone(devices), func(dev verbs.Device) bool { return !dev.Caps().ProgressManual })
	for _, dev := range devices {
		if c, taken := d.owner[dev]; taken {
			return operr.Wrap("use "+dev.Name(), fmt.Errorf("%w: the engine that was made at %s has the device until it has ended", verbs.ErrBusy, c.place))
		}
	}
	for _, dev := range devices {
		d.owner[dev] = deviceClaim{e, programPlace()}
	}
	return nil
}

// release takes back the devices of e.
func (d *deviceClaims) release(e *Engine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.owner, func(_ verbs.Device, c deviceClaim) bool { return c.engine == e })
}

// release releases the resources that open() has acquired. It is called when New
// fails.
func (e *Engine) release() (err error) {
	for _, l := range e.loops {
		err = firstError(err, l.release())
	}
	if e.acceptor != nil && len(e.loops) == 0 {
		err = firstError(err, e.acceptor.channel.Close())
	}
	claims.release(e)
	return firstError(err, e.closeMemory())
}

// warnOfBusyLoops logs a warning if busy loops leave no thread to other goroutines, which then
// wait until the Go runtime interrupts a loop, up to 10 ms each time.
func (e *Engine) warnOfBusyLoops() {
	busy := 0
	for _, l := range e.cfg.loops {
		if l.Idle == IdleBusy {
			busy++
		}
	}
	if threads := runtime.GOMAXPROCS(0); busy >= threads {
		e.log.Warn("reactor: loops that are always busy leave no thread to other goroutines", "loops", busy, "GOMAXPROCS", threads)
	}
}

// Start runs each loop on its own goroutine, and returns when OnBoot has returned on
// every loop. If OnBoot fails, Start ends the engine and returns the error of OnBoot.
// After an earlier Start or Stop the error matches verbs.ErrState. If a thread can not
// be pinned, the error is a *verbs.ParamError with the CPU, or that of the system.
func (e *Engine) Start() error {
	if err := e.markStarted(); err != nil {
		return err
	}
	e.warnOfBusyLoops()
	booted := make(chan error, len(e.loops))
	for _, l := range e.loops {
		e.run(func() { l.main(booted) })
	}
	if e.sim != nil {
		e.sim.Wait(func() bool { return len(booted) == len(e.loops) })
	}
	var err error
	for range e.loops {
		err = errors.Join(err, <-booted)
	}
	if err != nil {
		e.Stop()
		e.await(context.Background())
	}
	return err
}

// run runs a function on a goroutine of its own.
func (e *Engine) run(fn func()) {
	if e.sim != nil {
		e.sim.Go(fn)
		return
	}
	go fn()
}

// awaitClosed waits until the channel is closed. No value is ever sent to the channel.
func (e *Engine) awaitClosed(c <-chan struct{}) {
	if e.sim != nil {
		e.sim.Wait(func() bool { return isClosed(c) })
	}
	<-c
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// markStarted records that the loops run. It returns an error if the engine was already
// started or stopped.
func (e *Engine) markStarted() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopping.Load():
		return operr.Wrap("start engine", stateError("the engine was stopped"))
	case e.started:
		return operr.Wrap("start engine", stateError("the engine was started before"))
	}
	e.started = true
	return nil
}

// Provider returns the provider that New or NewLoop got.
func (e *Engine) Provider() cm.Provider { return e.provider }

// NumLoops returns the number of loops.
func (e *Engine) NumLoops() int { return len(e.loops) }

// Loop returns the loop with index i, or nil if i is not from 0 to NumLoops()-1.
func (e *Engine) Loop(i int) *Loop {
	if i < 0 || i >= len(e.loops) {
		return nil
	}
	return e.loops[i]
}

// Stats returns the sums of the loops' counters: see Loop.Stats.
func (e *Engine) Stats() Stats {
	var sum Stats
	for _, l := range e.loops {
		s := l.Stats()
		sum.Add(&s)
	}
	return sum
}

// onLoops calls onLoop for each loop.
func (e *Engine) onLoops(own *Loop, op string, fn func(*Loop)) {
	for _, l := range e.loops {
		e.onLoop(own, l, op, fn)
	}
}

// onLoop calls fn on the goroutine of the loop l. The parameter own is the loop on whose
// goroutine the caller runs. If l is this loop, onLoop calls fn directly.
func (e *Engine) onLoop(own, l *Loop, op string, fn func(*Loop)) {
	if l == own {
		fn(l)
		return
	}
	// Loop.post() fails only if the loop has ended. Such a loop has no connections, so it
	// does not need the call.
	_ = l.post(op, func() { fn(l) }, true)
}

// fail stops the engine because of the error err. Wait returns err, or an earlier error.
func (e *Engine) fail(err error) {
	e.log.Error("reactor: the engine stops", "error", err)
	e.recordError(err)
	e.Stop()
}

// recordError keeps the first error that is passed to it. Wait returns that error.
func (e *Engine) recordError(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = firstError(e.err, err)
}
