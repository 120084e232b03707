//go:build linux

package madcm

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
)

// A madChannel is the part of an event channel that belongs to the wire path: it
// implements Worker. The lock of the channel guards it, and the multiplexer's lock guards
// the inbox.
type madChannel struct {
	*connmgr.Channel
	mux   *Mux
	inbox inbox
	ports portUsers
	// orphans are the connections whose IDs were destroyed before the peer has answered their
	// DREQ.
	orphans map[*madConn]struct{}
	closed  bool // true after close()
}

// Serve implements WireTransport.
func (mux *Mux) Serve(ch *connmgr.Channel) connmgr.Worker {
	mc := &madChannel{Channel: ch, mux: mux, orphans: make(map[*madConn]struct{})}
	mc.initPorts()
	mux.mu.Lock()
	defer mux.mu.Unlock()
	mux.channels[ch] = mc
	return mc
}

// channelOf returns the part of a channel that belongs to the wire path.
func (mux *Mux) channelOf(ch *connmgr.Channel) *madChannel {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	return mux.channels[ch]
}

// add queues a job. The job runs with the channel locked. If the queue is full or closed,
// add returns false. The caller holds the multiplexer's lock.
func (mc *madChannel) add(j job) bool {
	if !mc.inbox.add(j) {
		return false
	}
	mc.Wake()
	return true
}

// Work implements Worker. It runs jobs of the inbox.
func (mc *madChannel) Work() (more bool) {
	jobs, more := mc.takeBatch()
	for n := range jobs {
		j := &jobs[n]
		if j.isNew() {
			j.request.admit(mc, j)
		} else if j.target.onChannel(mc, j) {
			j.run(j)
		}
		*j = job{}
	}
	return more
}

func (mc *madChannel) takeBatch() (jobs []job, more bool) {
	mc.mux.mu.Lock()
	defer mc.mux.mu.Unlock()
	jobs = mc.inbox.takeBatch()
	return jobs, mc.inbox.waiting() > 0
}

// Close implements Worker. It releases the orphans.
func (mc *madChannel) Close() {
	for c := range mc.orphans {
		c.release()
	}
	mc.closed = true
	mc.closeUnusedPorts()
	mc.mux.mu.Lock()
	defer mc.mux.mu.Unlock()
	mc.inbox.close()
	delete(mc.mux.channels, mc.Channel)
}

// acceptsFrom reports whether a request may come from an address. A device with both paths
// refuses requests of this host on the wire path, because processes of this host must use
// the local path; see package udp, far_only.go.
func (mc *madChannel) acceptsFrom(a netip.Addr) bool {
	if !mc.mux.AlsoLocal {
		return true
	}
	own, err := mc.IsLocalAddr(a)
	return err == nil && !own
}
