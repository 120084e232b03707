//go:build linux

package madcm

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

// A portUsers has the UDP ports that a channel watches. Connections and listeners of the
// channel are the users of a port. The locks of the channel and of the multiplexer guard
// a portUsers.
//
// A port without users stays open for up to unusedPortTime, because opening and closing
// it for each connection takes many system calls.
type portUsers struct {
	users map[*madPort]int // number of users of each port
	timer timerheap.Timer  // timer for closing the ports without users
}

// unusedPortTime is how long a channel keeps a UDP port open at most after the last
// connection has ended. Arbitrary.
const unusedPortTime = time.Second

func (mc *madChannel) initPorts() {
	mc.ports.users = make(map[*madPort]int)
	mc.ports.timer.Owner = timerheap.Func(mc.closeUnusedPorts)
}

// usePort adds one user to the port. If the channel does not watch the port yet, usePort
// makes the channel watch it. The caller holds the locks of the channel and of the
// multiplexer.
func (mc *madChannel) usePort(p *madPort) error {
	if _, watched := mc.ports.users[p]; !watched {
		if fd := p.fd(); fd >= 0 {
			if err := mc.Watch(fd, p); err != nil {
				return err
			}
		}
		p.channels++
	}
	mc.ports.users[p]++
	mc.watchRequests(p)
	return nil
}

// leavePort removes one user of the port. If it was the last user, the port stays open
// for unusedPortTime, unless the channel is closed. The caller holds the locks of the
// channel and of the multiplexer.
func (mc *madChannel) leavePort(p *madPort) {
	mc.ports.users[p]--
	switch {
	case mc.ports.users[p] > 0:
	case mc.closed:
		mc.unwatchPort(p)
	case !mc.ports.timer.Running():
		mc.StartTimer(&mc.ports.timer, unusedPortTime)
	}
}

// closeUnusedPorts makes the channel stop watching the ports without users. The caller
// holds the lock of the channel.
func (mc *madChannel) closeUnusedPorts() {
	mc.mux.mu.Lock()
	defer mc.mux.mu.Unlock()
	for p, users := range mc.ports.users {
		if users == 0 {
			mc.unwatchPort(p)
		}
	}
}

// unwatchPort makes the channel stop watching a port. It closes the port if no other
// channel watches it. The caller holds the locks of the channel and of the multiplexer.
func (mc *madChannel) unwatchPort(p *madPort) {
	delete(mc.ports.users, p)
	if fd := p.fd(); fd >= 0 {
		mc.Unwatch(fd)
	}
	if a := p.requests.Load(); a != nil {
		mc.Unwatch(a.socket.fd)
	}
	p.channels--
	p.closeUnwatched()
}

// close removes one user of the channel from the port; see leavePort.
func (p *madPort) close(mc *madChannel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	mc.leavePort(p)
}

// closeNow removes one user of the channel from the port. If it was the last user, the
// channel stops watching the port at once, so that another process can open the port.
func (p *madPort) closeNow(mc *madChannel) {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	mc.leavePort(p)
	if users, watched := mc.ports.users[p]; watched && users == 0 {
		mc.unwatchPort(p)
	}
}

// movePort moves one user of a port from the channel src to the channel dst. The caller
// holds the locks of both channels.
func movePort(p *madPort, src, dst *madChannel) error {
	p.mux.mu.Lock()
	defer p.mux.mu.Unlock()
	if err := dst.usePort(p); err != nil {
		return err
	}
	src.leavePort(p)
	return nil
}
