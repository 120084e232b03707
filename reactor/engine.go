package reactor

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An Engine is a number of loops that share a provider, a Handler and their
// listeners. Its methods may be called from any goroutine, except that Shutdown
// and Wait must not be called in a callback: they would wait for it.
type Engine struct {
	provider cm.Provider
	handler  Handler
	cfg      *Config
	loops    []*Loop
	acceptor *acceptor
	embedded bool // its loop is run by the application: see NewLoop

	stopping   atomic.Bool
	roundRobin atomic.Uint64 // of RoundRobin
	fullLoops  fullLoops
	accepts    atomic.Uint64
	rejects    atomic.Uint64
	running    atomic.Int32  // loops that have not ended
	done       chan struct{} // closed when none is left

	mu      sync.Mutex
	started bool
	devices []verbs.Device // whose events a loop watches
	err     error          // the first that is nobody's
}

// New makes an engine over p, which stays the caller's and is closed after it.
// Loop i uses completion vector i of each device. Where verbs.Caps.ProgressManual
// is true a vector has one owner, so that connections of a second engine on the
// provider fail with verbs.ErrBusy, and Config.Loops is limited to the vectors.
// Nothing runs before Start. An engine that is not needed after all is given back
// with Shutdown.
func New(p cm.Provider, h Handler, cfg *Config) (*Engine, error) {
	const op = "create engine"
	if p == nil || h == nil {
		return nil, verbs.Wrap(op, errNilArgument)
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := c.checkDevices(p); err != nil {
		return nil, verbs.Wrap(op, err)
	}
	e := &Engine{provider: p, handler: h, cfg: c, done: make(chan struct{})}
	if err := e.open(); err != nil {
		return nil, verbs.Wrap(op, firstError(err, e.release()))
	}
	e.running.Store(int32(len(e.loops)))
	return e, nil
}

func (e *Engine) open() (err error) {
	if e.acceptor, err = openAcceptor(e); err != nil {
		return err
	}
	for range e.cfg.Loops {
		l := &Loop{engine: e, handler: e.handler, cfg: e.cfg, index: len(e.loops)}
		e.loops = append(e.loops, l)
		if err := l.open(); err != nil {
			return err
		}
	}
	_, err = e.loops[0].watch(e.acceptor.channel.FD(), poller.Readable, e.acceptor)
	return err
}

// release undoes open, for an engine that never was.
func (e *Engine) release() (err error) {
	for _, l := range e.loops {
		err = firstError(err, l.release())
	}
	if e.acceptor != nil && len(e.loops) == 0 {
		err = firstError(err, e.acceptor.channel.Close())
	}
	return err
}

// Start runs each loop on a goroutine of its own, and returns when every OnBoot
// has. When one fails the engine is shut down, and the error is OnBoot's.
func (e *Engine) Start() error {
	if err := e.markStarted(); err != nil {
		return err
	}
	booted := make(chan error, len(e.loops))
	for _, l := range e.loops {
		go l.main(booted)
	}
	var err error
	for range e.loops {
		err = errors.Join(err, <-booted)
	}
	if err != nil {
		e.Stop()
		<-e.done
	}
	return err
}

// begin notes that the loops are somebody's from now on.
func (e *Engine) markStarted() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started || e.stopping.Load() {
		return verbs.Wrap("start engine", verbs.ErrState)
	}
	e.started = true
	return nil
}

// main is the goroutine of a loop.
func (l *Loop) main(booted chan<- error) {
	err := l.pin()
	if err == nil {
		err = l.boot()
	}
	booted <- err
	l.run()
}

// pin locks the goroutine to a thread, and the thread to a CPU, before the loop
// allocates anything. It is never unlocked: the thread ends with the goroutine.
func (l *Loop) pin() error {
	if len(l.cfg.CPUs) == 0 {
		return nil
	}
	runtime.LockOSThread()
	return verbs.Wrap("pin loop", pinThread(l.cfg.CPUs[l.index%len(l.cfg.CPUs)]))
}

// Loops is the number of loops.
func (e *Engine) Loops() int { return len(e.loops) }

// Loop returns the loop with an index from 0 to Loops()-1, or nil.
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

// claim reports whether the caller is the first to watch the device.
func (e *Engine) claimAsync(dev verbs.Device) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.devices, dev) {
		return false
	}
	e.devices = append(e.devices, dev)
	return true
}

// deviceEvent tells all loops, for the event may be about any of them.
func (e *Engine) deviceEvent(dev verbs.Device, ev verbs.AsyncEvent) {
	for _, l := range e.loops {
		// A loop that has ended has no connections.
		_ = l.post("device event", func() { l.deviceEvent(dev, ev) }, true)
	}
}

// deviceFailed reports to all loops that a device can not be used any more.
func (e *Engine) deviceFailed(dev verbs.Device, err error) {
	for _, l := range e.loops {
		// A loop that has ended has no connections, so its error is ignored.
		_ = l.post("device failure", func() { l.deviceFailed(dev, err) }, true)
	}
}

// fail ends the engine because of an error that leaves it unable to work.
func (e *Engine) fail(err error) {
	e.recordError(err)
	e.Stop()
}

func (e *Engine) recordError(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = firstError(e.err, err)
}
