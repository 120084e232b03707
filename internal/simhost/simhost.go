// Package simhost is the seam between the library and the simulation of package
// reactortest. A device asks a Host for what it otherwise gets from the system: timers,
// random numbers, addresses and packets. The Go clock needs no seam, because a simulation
// runs in a bubble of testing/synctest. On the real host all values of type Host are nil.
package simhost

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Host is a simulated host, as one of its processes sees it. Its methods may be called
// by the test, and by functions that Go has started.
type Host interface {
	fdevent.Clock

	// Random returns a random number. The seed of the simulation determines it.
	Random() uint64

	// Name is different for each host of all simulations that run on this computer. The
	// local path makes names of Unix sockets with it. It has 1 to 24 bytes, without slashes
	// and spaces.
	Name() string
	// Addrs returns the addresses of the host.
	Addrs() []netip.Addr
	// SourceFor returns the address from which the host sends to dst. If there is no route,
	// ok is false.
	SourceFor(dst netip.Addr) (src netip.Addr, ok bool)
	// MTU returns the MTU of all networks of the host in bytes.
	MTU() int

	// Opened tells the host that the process has opened or received a socket. When the
	// process is killed, the host closes its sockets.
	Opened(fd int)

	// MayMap returns unix.ENOMEM if the process gets no memory now. Mapped tells the host what
	// the process has mapped, and Unmapped that it has unmapped that. When the process is
	// killed, the host unmaps the rest.
	MayMap() error
	Mapped(memory []byte)
	Unmapped(memory []byte)

	// Bind makes the host call receive for each UDP datagram that arrives at a local address
	// and port, until unbind is called. The datagram is valid during the call. The error is
	// unix.EADDRINUSE if another process has the port.
	Bind(at netip.AddrPort, receive func(from netip.AddrPort, datagram []byte)) (unbind func(), err error)
	// ReceiveLimit returns how many datagrams a socket of the process holds that were not read
	// yet.
	ReceiveLimit() int
	// Send sends a copy of a UDP datagram.
	Send(from, to netip.AddrPort, datagram []byte)

	// Record records a callback of a loop of the process, with what is known about it.
	Record(loop int, callback, about string)

	// Go makes the simulation run fn, which may call Sleep and Wait. It runs until it does,
	// and nothing else runs meanwhile.
	Go(fn func())
	// Sleep lets time pass until the descriptor fd is readable, but not longer than the
	// timeout. A negative timeout means no limit.
	Sleep(fd int, timeout time.Duration)
	// Wait lets time pass until done returns true.
	Wait(done func() bool)
	// Call makes the simulation call fn soon, unless the process has ended, and look again at
	// what Sleep and Wait wait for. Any goroutine of the bubble may call it; only fn can use
	// the descriptors of the process.
	Call(fn func())
}

// Opened calls h.Opened, unless h is nil or fd negative. It returns fd.
func Opened(h Host, fd int) int {
	if h != nil && fd >= 0 {
		h.Opened(fd)
	}
	return fd
}

// Map calls the function mmap, which maps memory, unless the process gets none.
func Map(h Host, mmap func() ([]byte, error)) ([]byte, error) {
	if h == nil {
		return mmap()
	}
	if err := h.MayMap(); err != nil {
		return nil, err
	}
	memory, err := mmap()
	if err == nil {
		h.Mapped(memory)
	}
	return memory, err
}

// Unmapped calls h.Unmapped, unless h is nil.
func Unmapped(h Host, memory []byte) {
	if h != nil {
		h.Unmapped(memory)
	}
}

// Of returns the host of a provider's devices, or nil if they are on the real host.
func Of(p cm.Provider) Host {
	devices, err := p.Devices()
	if err != nil {
		return nil
	}
	for _, d := range devices {
		if h := OfDevice(d); h != nil {
			return h
		}
	}
	return nil
}

// OfDevice returns the host of a device, or nil.
func OfDevice(d verbs.Device) Host {
	if on, ok := d.(interface{ SimulatedHost() Host }); ok {
		return on.SimulatedHost()
	}
	return nil
}

// OpenSoft is soft.Open on a simulated host. The parameter cfg is a *soft.Config. Package
// soft sets OpenSoft, because this package can not import it.
var OpenSoft func(h Host, cfg any) (cm.Provider, error)
