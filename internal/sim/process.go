//go:build linux

package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
)

// A Process is a process of a host. It implements simhost.Host.
type Process struct {
	// Stopped means that the process does not run, as after SIGSTOP.
	Stopped bool
	// NoDescriptors means that the tasks of the process can open no descriptors.
	NoDescriptors bool
	// NoMemory means that the process can map no memory.
	NoMemory bool
	// Limit is the result of ReceiveLimit.
	Limit int

	host   *Host
	name   string
	rng    *rand.Rand
	timers map[*fdevent.Timer]*timer
	memory map[*byte][]byte // memory that the process has mapped, by its first byte
	unix   string           // see Name
	dead   bool
}

var _ simhost.Host = (*Process)(nil)

// worlds is the number of worlds of this program.
var worlds atomic.Uint64

// AddProcess adds a process to a host. Its random numbers depend on its number, which is
// that of no other process of the world.
func (h *Host) AddProcess(name string, number uint64) *Process {
	p := &Process{host: h, name: name, rng: random(h.World.seed, number), timers: make(map[*fdevent.Timer]*timer), memory: make(map[*byte][]byte), Limit: DefaultLimit, unix: h.unixName()}
	h.processes = append(h.processes, p)
	return p
}

// unixName returns a name that no other host of any world on this computer has.
func (h *Host) unixName() string {
	return fmt.Sprintf("%d.%d.%d", os.Getpid(), h.World.id, slices.Index(h.World.hosts, h))
}

// Name implements simhost.Host.
func (p *Process) Name() string { return p.unix }

// MayMap implements simhost.Host.
func (p *Process) MayMap() error {
	if p.NoMemory {
		return unix.ENOMEM
	}
	return nil
}

// Mapped implements simhost.Host.
func (p *Process) Mapped(memory []byte) { p.memory[&memory[0]] = memory }

// Unmapped implements simhost.Host.
func (p *Process) Unmapped(memory []byte) { delete(p.memory, &memory[0]) }

// DefaultLimit is how many packets of 1 KiB a UDP socket holds that has the default receive
// buffer (net.core.rmem_default, 212,992 bytes).
const DefaultLimit = 185

// ReceiveLimit implements simhost.Host.
func (p *Process) ReceiveLimit() int { return p.Limit }

// Random implements simhost.Host.
func (p *Process) Random() uint64 { return p.rng.Uint64() }

// Addrs implements simhost.Host.
func (p *Process) Addrs() []netip.Addr { return []netip.Addr{p.host.addr} }

// SourceFor implements simhost.Host.
func (p *Process) SourceFor(dst netip.Addr) (netip.Addr, bool) {
	return p.host.addr, p.host.World.hostAt(dst) != nil
}

// MTU implements simhost.Host. A packet with 4096 bytes of payload fits.
func (p *Process) MTU() int { return 9000 }

// Bind implements simhost.Host.
func (p *Process) Bind(at netip.AddrPort, receive func(netip.AddrPort, []byte)) (func(), error) {
	if at.Addr() != p.host.addr {
		return nil, unix.EADDRNOTAVAIL
	}
	if _, taken := p.host.bound[at]; taken {
		return nil, unix.EADDRINUSE
	}
	p.host.bound[at] = binding{p, receive}
	return func() { delete(p.host.bound, at) }, nil
}

// Send implements simhost.Host.
func (p *Process) Send(from, to netip.AddrPort, datagram []byte) {
	if !p.dead {
		p.host.World.send(from, to, datagram)
	}
}

// SetTimer implements fdevent.Clock.
func (p *Process) SetTimer(t *fdevent.Timer, after time.Duration) {
	w := p.host.World
	s := p.timers[t]
	if s == nil {
		s = &timer{of: t}
		s.Owner = s
		p.timers[t] = s
	}
	w.timers.Set(&s.Timer, w.Now()+max(0, after))
}

// StopTimer implements fdevent.Clock.
func (p *Process) StopTimer(t *fdevent.Timer) {
	if s := p.timers[t]; s != nil {
		p.host.World.timers.Stop(&s.Timer)
		delete(p.timers, t)
	}
}

// Record implements simhost.Host.
func (p *Process) Record(loop int, callback, about string) {
	p.host.World.Log(fmt.Sprintf("%s/%s loop %d: %s %s", p.host.name, p.name, loop, callback, about))
}

// Go implements simhost.Host.
func (p *Process) Go(fn func()) {
	t := &task{process: p}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if r := recover(); r != nil && r != (killed{}) {
				// The panic goes on in the goroutine of the world, whose stack does not show fn.
				panic(fmt.Sprintf("%v\n\n%s", r, debug.Stack()))
			}
		}()
		fn()
	})
	p.host.World.tasks = append(p.host.World.tasks, t)
}

// Sleep implements simhost.Host.
func (p *Process) Sleep(fd int, timeout time.Duration) {
	until := never
	if timeout >= 0 && timeout < never-p.host.World.Now() {
		until = p.host.World.Now() + timeout
	}
	p.host.World.wait(fd, until, nil)
}

// Wait implements simhost.Host.
func (p *Process) Wait(done func() bool) { p.host.World.wait(-1, never, done) }

// Call implements simhost.Host.
func (p *Process) Call(fn func()) {
	p.host.World.call(func() {
		if !p.dead {
			fn()
		}
	})
}

// A socket is a socket that a process has opened or received. It may be closed.
type socket struct {
	fd      int
	inode   uint64
	process *Process
}

// Opened implements simhost.Host.
func (p *Process) Opened(fd int) {
	w := p.host.World
	// The number may have been that of a socket of another process, even of the same socket
	// if that process has passed it to this one.
	w.sockets = slices.DeleteFunc(w.sockets, func(s socket) bool { return s.fd == fd })
	w.sockets = append(w.sockets, socket{fd, inode(fd), p})
}

// inode returns the number of an open file, or 0. No two open sockets have the same.
func inode(fd int) uint64 {
	var s unix.Stat_t
	if unix.Fstat(fd, &s) != nil {
		return 0
	}
	return s.Ino
}

// Kill ends the process at once. The system closes its descriptors, and that is all that its
// peers notice. A task of the process can not call it.
func (p *Process) Kill() {
	if p.dead {
		return
	}
	w := p.host.World
	if w.current != nil && w.current.process == p {
		panic("sim: a process can not kill itself: let the test or another process do it")
	}
	p.dead = true
	for i := 0; i < len(w.tasks); {
		t := w.tasks[i]
		if t.process != p {
			i++
			continue
		}
		w.tasks = append(w.tasks[:i:i], w.tasks[i+1:]...)
		t.stop()
	}
	for _, t := range p.timers {
		w.timers.Stop(&t.Timer)
	}
	for at, b := range p.host.bound {
		if b.process == p {
			delete(p.host.bound, at)
		}
	}
	for _, s := range w.sockets {
		// The process may have closed the socket, and the number may be in use again.
		if s.process == p && s.inode != 0 && inode(s.fd) == s.inode {
			_ = unix.Close(s.fd)
		}
	}
	for _, memory := range p.memory {
		_ = unix.Munmap(memory)
	}
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.dead }
