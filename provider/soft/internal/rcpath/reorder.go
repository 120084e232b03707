//go:build linux

package rcpath

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// maxHeldPackets limits the packets that a shard holds behind gaps. It is the number of
// packets that rxe sends without an acknowledgement. Further packets are dropped.
const maxHeldPackets = 128

// A heldPacket is a request packet that has arrived before an earlier one.
type heldPacket struct {
	conn   *Conn
	seq    uint64
	at     int64       // udp.Header.Time, or 0
	packet wire.Packet // copy of the packet
	buffer []byte      // memory of the copy
}

// heldPackets has the packets behind gaps. A gap may be caused by the order of arrival
// alone. On a busy host, Linux passes packets through queues of several processors, and
// the packets may overtake each other. So packets behind a gap are held until the NAK is
// sent, which is after the next poll of the sockets. If the missing packets arrive before
// that, no NAK is needed. That matters because after a NAK rxe repeats requests that it
// must not repeat; see examples/nvmeof/README.md.
type heldPackets struct {
	list []heldPacket
	free [][]byte // buffers for further packets, at most maxHeldPackets with those in list
}

// hold stores a copy of a packet, unless the packet is held already or there is no room.
func (h *heldPackets) hold(c *Conn, seq uint64, p wire.Packet, at int64) {
	if len(h.list) == maxHeldPackets || h.find(c, seq) >= 0 {
		return
	}
	var buffer []byte
	if last := len(h.free) - 1; last >= 0 {
		buffer, h.free = h.free[last], h.free[:last]
	}
	buffer = append(buffer[:0], p.Bytes()...)
	// The caller has decoded the same bytes, so this can not fail.
	if held, err := wire.Decode(buffer); err == nil {
		h.list = append(h.list, heldPacket{c, seq, at, held, buffer})
	}
}

func (h *heldPackets) find(c *Conn, seq uint64) int {
	return slices.IndexFunc(h.list, func(held heldPacket) bool { return held.conn == c && held.seq == seq })
}

// take removes and returns the packet seq of a connection and its time, if it is held. The
// packet is valid until the next call of hold.
func (h *heldPackets) take(c *Conn, seq uint64) (p wire.Packet, at int64, ok bool) {
	i := h.find(c, seq)
	if i < 0 {
		return p, 0, false
	}
	p, at = h.list[i].packet, h.list[i].at
	h.free = append(h.free, h.list[i].buffer)
	h.list = slices.Delete(h.list, i, i+1)
	return p, at, true
}

// holds reports whether a packet of a connection is held.
func (h *heldPackets) holds(c *Conn) bool {
	return slices.ContainsFunc(h.list, func(held heldPacket) bool { return held.conn == c })
}

// drop removes all packets of a connection.
func (h *heldPackets) drop(c *Conn) {
	if len(h.list) == 0 {
		return
	}
	h.list = slices.DeleteFunc(h.list, func(held heldPacket) bool {
		if held.conn == c {
			h.free = append(h.free, held.buffer)
		}
		return held.conn == c
	})
}

// onSequenceGap is called for each packet after a missing one. For the first of them it
// schedules a sequence error NAK. Until this NAK is sent, it holds the packets.
func (c *Conn) onSequenceGap(p wire.Packet, seq uint64, at int64) {
	if c.resp.nakState == nakNone {
		c.scheduleGapNAK()
	}
	if c.resp.awaitsMissing() {
		c.all.held.hold(c, seq, p, at)
	}
}

// executeMissing executes the expected packet, which has arrived after later ones, and
// then the packets that were held.
func (c *Conn) executeMissing(p wire.Packet, at int64) {
	c.q.Counts().Inc(counters.RcvdReordered)
	for {
		c.resp.onExpected()
		c.execute(p, at)
		if c.resp.nakState != nakNone || !c.q.IsServing() {
			// The packet was not executed, so the peer sends it and all later ones again.
			c.all.held.drop(c)
			return
		}
		held, arrived, ok := c.all.held.take(c, c.resp.expected)
		if !ok {
			break
		}
		if p = held; p.Opcode().First() {
			at = arrived
		} else { // An earlier packet of the message may have arrived later.
			at = max(at, arrived)
		}
	}
	if c.all.held.holds(c) { // A further packet is missing.
		c.scheduleGapNAK()
	}
}

func (c *Conn) scheduleGapNAK() {
	c.resp.scheduleNAK(wire.NAK(wire.NAKSequence))
	c.resp.gapPoll = c.demux.Polls
	c.schedule()
}

// awaitsPoll reports whether the due NAK waits for the next poll of the sockets, in which
// the missing packet may arrive.
func (c *Conn) awaitsPoll() bool {
	// During the poll that has found the gap, demux.Polls is gapPoll.
	return c.resp.awaitsMissing() && c.demux.Polls-c.resp.gapPoll < 2
}
