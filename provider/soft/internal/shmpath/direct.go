//go:build linux

package shmpath

import (
	"encoding/binary"
	"runtime"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// This file has the one-sided operations that the requester executes itself, in mapped
// memory of the peer. The rules are in doc.go, "Regions that two processes map".

// maxDirect is the largest number of bytes in a request that the requester executes
// itself. A longer request would delay other work of the loop too much: copying 1 MiB
// takes about 0.1 ms. Arbitrary.
const maxDirect = 1 << 20

// directAccess is the access right that a request needs, by opcode. It is 0 for requests
// that only the responder can execute. A WRITE with immediate data is such a request,
// because it takes a receive buffer.
var directAccess = [...]verbs.Access{
	verbs.OpWrite:       verbs.AccessRemoteWrite,
	verbs.OpRead:        verbs.AccessRemoteRead,
	verbs.OpCompareSwap: verbs.AccessRemoteAtomic,
	verbs.OpFetchAdd:    verbs.AccessRemoteAtomic,
	verbs.OpSendInv:     0,
}

// minAwaiting is the length in bytes of the shortest READ that waits until the requester
// may execute it itself. A response of 64 KiB through the ring takes a multiple of the
// time of a copy. Arbitrary.
const minAwaiting = 64 << 10

// grantState says how far the report of access rights has come, from one queue pair of a
// connection to the other.
type grantState uint8

const (
	// grantUnasked: nobody has asked for the rights. Both reports begin in this state. The
	// notice shm.Share leads to grantAsked.
	grantUnasked grantState = iota
	// grantAsked: the rights were asked for, and nothing was reported yet. That means no
	// rights. The notice shm.Granted leads to grantReported.
	grantAsked
	// grantReported: the rights were reported. Further notices Granted change them.
	grantReported
)

// A grantReport has the access rights of one queue pair that the other one knows.
type grantReport struct {
	state  grantState
	rights qp.Grant
}

func (g *grantReport) asked() bool { return g.state != grantUnasked }

// ask records that the rights were asked for.
func (g *grantReport) ask() {
	if g.state == grantUnasked {
		g.state = grantAsked
	}
}

// report records the rights. It does nothing if nobody has asked for them.
func (g *grantReport) report(rights qp.Grant) {
	if g.asked() {
		g.state, g.rights = grantReported, rights
	}
}

// directMemory returns the mapped memory of the peer for a request. If a check fails, it
// returns nil. The request is then sent to the responder, which decides about the error,
// and if ask is true, askFor has to be called after that. A request without data is always
// sent, because its purpose may be to find out whether the peer answers.
func (c *Conn) directMemory(w *qp.WQE) (memory []byte, ask bool) {
	access := directAccess[w.Op]
	if access == 0 || w.Total == 0 || w.Total > maxDirect || !c.p.sharesRegions {
		return nil, false
	}
	r := c.p.regions.find(w.Key)
	if r == nil || !c.theirs.asked() {
		return nil, true
	}
	rights := &c.theirs.rights
	if r.state != regionMapped || rights.Access&access == 0 || rights.Domain != r.memory.Domain {
		return nil, false
	}
	memory = r.memory.At(w.Addr, w.Total, access)
	if memory == nil || w.Op.Atomic() && w.Addr%8 != 0 || !c.peerUnchanged() || !r.memory.Valid() {
		return nil, false
	}
	return memory, false
}

// executeDirectly executes a request in the memory from directMemory, and completes it.
// It returns false if the local memory is not accessible, or if an earlier request is
// outstanding. The responder may still refuse that request with an RNR NAK and execute it
// later. Then the two requests would be executed in the wrong order.
func (c *Conn) executeDirectly(w *qp.WQE, memory []byte) bool {
	if c.q.Outstanding() {
		return false
	}
	switch w.Op {
	case verbs.OpWrite:
		return c.write(memory, w)
	case verbs.OpRead:
		if c.tap != nil {
			c.recordDirect(w, nil, memory)
		}
		c.q.MarkSent(w, 0)
		return c.q.Response(fragment.ReadData, memory, true)
	}
	return c.executeOnWord(memory, w)
}

// waitsForOutstanding reports whether a request that could be executed directly must
// wait, because earlier requests are outstanding. Only long READs wait. The responder
// would execute such a READ after the same requests, and more slowly. The last
// acknowledgement or response makes the connection continue.
func (c *Conn) waitsForOutstanding(w *qp.WQE) bool {
	if w.Op != verbs.OpRead || w.Total < minAwaiting || !c.q.Outstanding() || !c.q.NextIsNew() {
		return false
	}
	if sent := &c.p.sent; !c.awaitsAcks && sent.executed != sent.seq {
		c.awaitsAcks = true
		sent.awaited.push(sent.seq-1, c)
	}
	return true
}

// peerUnchanged reports whether this side has consumed all slots in which the peer
// reports changes of its queue pairs.
func (c *Conn) peerUnchanged() bool { return c.p.peer.Changes.Load() == c.p.changesSeen }

// write executes a WRITE. It returns false if the local memory is not accessible.
func (c *Conn) write(dst []byte, w *qp.WQE) bool {
	if !c.q.Gather(dst, w, 0) {
		return false
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "386" {
		// The peer must see these data before the data of a later request, so stores need a
		// barrier. On amd64 and 386, stores become visible in order without one.
		c.p.barrier.Add(1)
	}
	if c.tap != nil {
		c.recordDirect(w, dst, nil)
	}
	c.q.Executed(w)
	return true
}

func (c *Conn) executeOnWord(memory []byte, w *qp.WQE) bool {
	var result [8]byte
	word := qp.AtomicWord(memory)
	if w.Op == verbs.OpFetchAdd {
		binary.NativeEndian.PutUint64(result[:], word.Add(w.Compare)-w.Compare)
	} else {
		binary.NativeEndian.PutUint64(result[:], qp.CompareAndSwap(word, w.Compare, w.Swap))
	}
	if c.tap != nil {
		c.recordDirect(w, nil, result[:])
	}
	c.q.MarkSent(w, 0)
	return c.q.Response(fragment.AtomicResult, result[:], true)
}

// askFor is called after a request with a remote key was sent. It asks the peer for the
// access rights of its queue pair, and for the region with this key.
func (c *Conn) askFor(key uint32) {
	if c.p.regions.find(key) != nil || !c.p.regions.add(key) {
		key = 0 // Zero is the key of no region, so only the access rights are asked for.
	}
	if key == 0 && c.theirs.asked() {
		return
	}
	c.theirs.ask()
	c.p.notify(notice{op: shm.Share, to: c.dest, imm: key})
}

// share answers a slot Share. It tells the peer what the queue pair allows, and passes
// the descriptor of a region. The descriptor is passed only if the peer's last executed
// request had the same key. So a peer can not use a slot Share to guess keys.
func (c *Conn) share(key uint32) {
	if !c.serving {
		return
	}
	if c.p.sharesRegions {
		c.ours.ask()
		c.sendGrant()
	}
	if key == 0 {
		return
	}
	if c.p.notices.shared >= maxRemoteRegions+c.p.in.Len() {
		// A correct peer asks for at most maxRemoteRegions regions before it consumes the
		// answers. If this side was late, the peer may have asked for some of them again.
		// Those slots are in the ring.
		c.p.protocolError()
		return
	}
	passed := uint8(0)
	if c.p.sharesRegions && key == c.executedKey && c.q.PassRegion(key, c.p.end.Doorbell) {
		passed = 1
	}
	c.p.notify(notice{op: shm.Shared, to: c.dest, imm: key, value: passed})
}

// AttributesChanged implements qp.LocalPath. If the peer has asked for the access rights
// of the queue pair, AttributesChanged sends the new ones.
func (c *Conn) AttributesChanged() {
	if c.tap != nil {
		c.tap.SendFrom(c.q.Attributes().SQPSN)
	}
	if c.ours.asked() && c.serving {
		c.sendGrant()
	}
}

// sendGrant tells the peer what the queue pair allows, if that has changed.
func (c *Conn) sendGrant() {
	g := c.q.Grants()
	if g == c.ours.rights {
		return
	}
	c.ours.report(g)
	c.p.notifyChange(notice{op: shm.Granted, to: c.dest, imm: g.Domain, value: uint8(g.Access)})
}

// takeGrant processes a slot in which the peer's queue pair says what it allows.
func (c *Conn) takeGrant(s *shm.Slot) {
	if c.state == peerReady {
		c.theirs.report(qp.Grant{Domain: s.Imm, Access: verbs.Access(uint8(s.Addr))})
	}
}

// notifyChange sends a notice that invalidates earlier notices. Even if the ring has no
// room for the notice yet, the peer sees at once that something has changed.
func (p *peer) notifyChange(n notice) {
	p.own.Changes.Add(1)
	p.notify(n)
}

// takeShared processes a slot that concerns all connections. The slot reports a change,
// or answers a request for a region.
func (p *peer) takeShared(s *shm.Slot) {
	switch s.Op {
	case shm.Stopped, shm.Granted:
		p.changesSeen++
	case shm.Shared:
		fd := -1
		if s.Addr == 1 {
			if received, ok := shm.ReceiveDescriptor(p.end.Doorbell); ok {
				fd = received
			}
		}
		p.regions.answered(s.Imm, fd)
	}
}
