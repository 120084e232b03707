//go:build linux

package rcpath

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/udp"
)

// arriveAt is arrive for a packet with the given udp.Header.Time.
func (p *script) arriveAt(at int64, pkt wire.Packet) {
	p.e.QP.Shard.Demux.Receive(pkt, &udp.Header{From: scriptAddr, To: ownAddr, HopLimit: scriptHops, Time: at})
}

// wantTimes requires that messages with the given times have completed.
func (p *script) wantTimes(want ...int64) {
	p.t.Helper()
	var got []int64
	for _, wc := range p.e.DrainCQ() {
		got = append(got, wc.Time)
	}
	require.Equal(p.t, want, got)
}

// A message has the time of the packet that has completed it: of the packets of a message, the
// one that has arrived last. A message that was held behind a gap has the time of its own packet.
func TestWireMessageTimes(t *testing.T) {
	p := newReceiver(t, 6)
	p.conn.to.WantTime = true
	p.arriveAt(10, p.request(wire.SendOnly, 0, 10))
	p.wantTimes(10)

	p.e.Recv(6, 0, 3*scriptMTU)
	for range 5 {
		p.arriveAt(20, p.request(wire.SendOnly, p.conn.resp.expected, 10))
	}
	p.wantTimes(20, 20, 20, 20, 20)
	p.arriveAt(30, p.request(wire.SendFirst, 6, scriptMTU))
	p.arriveAt(31, p.request(wire.SendMiddle, 7, scriptMTU))
	p.wantTimes()
	p.arriveAt(32, p.request(wire.SendLast, 8, 1))
	p.wantTimes(32)

	// The missing middle packet arrives after the last one, and completes the message. The
	// message behind it has the time of its own packet.
	p.e.Recv(0, 0, 3*scriptMTU)
	p.e.Recv(1, 0, 10)
	p.arriveAt(30, p.request(wire.SendFirst, 9, scriptMTU))
	p.arriveAt(31, p.request(wire.SendLast, 11, 1))
	p.arriveAt(32, p.request(wire.SendOnly, 12, 10))
	p.wantTimes()
	p.arriveAt(40, p.request(wire.SendMiddle, 10, scriptMTU))
	p.wantTimes(40, 32)

	for id := range uint64(3) {
		p.e.Recv(id, 0, 10)
	}
	p.arriveAt(40, p.request(wire.SendOnly, 15, 10))
	p.arriveAt(41, p.request(wire.SendOnly, 14, 10))
	p.arriveAt(42, p.request(wire.SendOnly, 13, 10))
	p.wantTimes(42, 41, 40)

	p.e.Recv(0, 0, 10)
	p.arriveAt(0, p.request(wire.SendOnly, 16, 10)) // The kernel has reported no time.
	p.wantTimes(0)
}

// A queue pair without QPInitAttr.RecvTime has no times, although another one of the shard has
// made the sockets report them.
func TestWireNoTimes(t *testing.T) {
	p := newReceiver(t, 2)
	p.arriveAt(10, p.request(wire.SendOnly, 1, 10))
	p.arriveAt(11, p.request(wire.SendOnly, 0, 10))
	p.wantTimes(0, 0)
}
