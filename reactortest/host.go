//go:build linux

package reactortest

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/sim"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A Host is a host of a World. It has one address, which the network of the world knows.
// Processes of one host are connected by shared memory, and those of different hosts by
// packets.
type Host struct {
	w         *World
	sim       *sim.Host
	processes []*Process
}

// Host adds a host. Its name is for the log.
func (w *World) Host(name string) *Host {
	h := &Host{w: w, sim: w.sim.AddHost(name)}
	w.hosts = append(w.hosts, h)
	return h
}

// Name returns the name of the host.
func (h *Host) Name() string { return h.sim.Name() }

// Addr returns the address of the host.
func (h *Host) Addr() netip.Addr { return h.sim.Addr() }

// AddrPort returns the address of the host with a port.
func (h *Host) AddrPort(port uint16) netip.AddrPort { return netip.AddrPortFrom(h.Addr(), port) }

// SetFaultsTo sets the faults of the packets that the host sends to another one.
func (h *Host) SetFaultsTo(other *Host, f Faults) { h.w.links[link{h.sim, other.sim}] = f }

// Stop stops all that runs on the host, as if its power was taken for a while and its memory
// kept. Packets that arrive are lost. Go on with Continue.
func (h *Host) Stop() { h.stop(true) }

// Continue ends Stop.
func (h *Host) Continue() { h.stop(false) }

func (h *Host) stop(is bool) {
	h.w.Logf("%s has stopped: %v", h.Name(), is)
	h.sim.Off = is
	for _, p := range h.processes {
		p.sim.Stopped = is
	}
}

// Kill kills all processes of the host. Processes that are added later run as usual.
func (h *Host) Kill() {
	for _, p := range h.processes {
		p.Kill()
	}
}

func (h *Host) close() {
	h.w.t.Helper()
	for _, p := range h.processes {
		p.close()
	}
}

// A Process is a process of a host: it has devices, and engines that use them.
type Process struct {
	host      *Host
	name      string
	sim       *sim.Process
	providers []cm.Provider
	engines   []*reactor.Engine
	loops     []*reactor.Loop // loops of NewLoop
}

// Process adds a process. Its name is for the log.
func (h *Host) Process(name string) *Process {
	h.w.processes++
	p := &Process{host: h, name: name, sim: h.sim.AddProcess(name, uint64(h.w.processes))}
	h.processes = append(h.processes, p)
	return p
}

// Host returns the host of the process.
func (p *Process) Host() *Host { return p.host }

// Open opens a device of the process, with a configuration as for soft.Open. The result can
// be used as that of soft.Open, for example by reactor.New. The engines of a process run
// when the world runs.
func (p *Process) Open(cfg *soft.Config) cm.Provider {
	p.host.w.t.Helper()
	provider, err := simhost.OpenSoft(p.sim, cfg)
	if err != nil {
		p.host.w.t.Fatalf("open a device of %s: %v", p.name, err)
	}
	p.providers = append(p.providers, provider)
	return provider
}

// Start opens a device with the default configuration and one completion vector for each
// loop, makes an engine, and starts it. At the end of the test the engine is shut down. A nil
// cfg means the defaults and one loop.
func (p *Process) Start(h reactor.Handler, cfg *reactor.Config) *reactor.Engine {
	p.host.w.t.Helper()
	c := reactor.Config{}
	if cfg != nil {
		c = *cfg
	}
	c.NumLoops = max(1, c.NumLoops)
	e, err := reactor.New(p.Open(nil), h, &c)
	if err == nil {
		p.engines = append(p.engines, e)
		err = e.Start()
	}
	if err != nil {
		p.host.w.t.Fatalf("start an engine of %s: %v", p.name, err)
	}
	return e
}

// NewLoop opens a device and makes a loop for it, which the test runs: see reactor.NewLoop.
// RunOnce lets time pass while it waits. At the end of the test the loop is closed.
func (p *Process) NewLoop(h reactor.Handler, cfg *reactor.Config) *reactor.Loop {
	p.host.w.t.Helper()
	l, err := reactor.NewLoop(p.Open(nil), h, cfg)
	if err != nil {
		p.host.w.t.Fatalf("make a loop of %s: %v", p.name, err)
	}
	p.loops = append(p.loops, l)
	return l
}

// Stop stops the process, as SIGSTOP does. The system still receives packets for it, until
// its buffers are full. Go on with Continue.
func (p *Process) Stop() {
	p.host.w.Logf("%s has stopped", p.name)
	p.sim.Stopped = true
}

// Continue ends Stop.
func (p *Process) Continue() {
	p.host.w.Logf("%s goes on", p.name)
	p.sim.Stopped = false
}

// Kill ends the process at once, as SIGKILL does. Processes of the same host notice that its
// sockets are closed. Those of other hosts notice nothing. The engines and devices of the
// process can not be used any more, and its handlers are not called any more. A callback of the
// process can not call Kill, nor Host.Kill.
func (p *Process) Kill() {
	p.host.w.Logf("%s was killed", p.name)
	p.sim.Kill()
}

// SetNoDescriptors decides whether the loops of the process can open files and sockets.
// While they can not, the system returns EMFILE. No other goroutine of the program may open
// files meanwhile.
func (p *Process) SetNoDescriptors(none bool) { p.sim.NoDescriptors = none }

// SetNoMemory decides whether the process can map memory. While it can not, it gets no new
// buffers, regions and shared memory: the system returns ENOMEM.
func (p *Process) SetNoMemory(none bool) { p.sim.NoMemory = none }

// SetReceiveLimit sets how many packets from other hosts may wait until a loop reads them.
// Further ones are lost. The default is 185, as for packets of 1 KiB and the default receive
// buffer of Linux.
func (p *Process) SetReceiveLimit(packets int) { p.sim.Limit = packets }

// FailDevice makes a device of the process fail, as hardware can (verbs.AsyncDeviceFatal). The
// parameter is a result of Open, or nil for all devices of the process.
func (p *Process) FailDevice(of cm.Provider) {
	p.host.w.t.Helper()
	for _, provider := range p.providers {
		if of != nil && of != provider {
			continue
		}
		devices, err := provider.Devices()
		if err != nil {
			p.host.w.t.Fatalf("device of %s: %v", p.name, err)
		}
		p.host.w.Logf("the device of %s has failed", p.name)
		for _, d := range devices {
			d.(interface{ Fail() }).Fail()
		}
	}
}

// close shuts down the engines, and closes the loops and the devices.
func (p *Process) close() {
	t := p.host.w.t
	t.Helper()
	if p.sim.Dead() {
		return
	}
	for _, e := range p.engines {
		ctx, cancel := shutdownContext()
		if err := e.Shutdown(ctx); err != nil {
			t.Errorf("shut down an engine of %s: %v", p.name, err)
		}
		cancel()
		p.checkRescues(e.Stats())
	}
	for _, l := range p.loops {
		if err := l.Close(); err != nil {
			t.Errorf("close a loop of %s: %v", p.name, err)
		}
		p.checkRescues(l.Stats())
	}
	for _, provider := range p.providers {
		if err := provider.Close(); err != nil {
			t.Errorf("close a device of %s: %v", p.name, err)
		}
	}
}

func (p *Process) checkRescues(s reactor.Stats) {
	if s.Rescues > 0 {
		p.host.w.t.Errorf("%s: %d wake-ups were lost: see reactor.Stats.Rescues", p.name, s.Rescues)
	}
}
