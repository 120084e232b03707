//go:build linux

package udp

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A receiver takes packets from a socket, and drops those that are none. It
// never blocks.
type receiver struct {
	fd              int
	local           netip.AddrPort
	batch           *batch
	from            *source // source of the last packet
	known           sources
	successfulCalls int  // calls that brought something, in a row
	largeBatches    bool // many packets are there when there is any
	receivesHeaders bool // what IP headers say

	clock func() time.Duration
	times arrivalTimes  // of the socket fd
	since time.Duration // the packets in batch arrived after this time

	counts *counters.Set // every datagram is in exactly one of them
}

func newReceiver(fd int, local netip.AddrPort, packets, size int, counts *counters.Set) receiver {
	start := time.Now()
	r := receiver{
		fd: fd, local: local, batch: newBatch(packets, size), counts: counts, from: &source{},
		clock: func() time.Duration { return time.Since(start) },
	}
	for i := range packets {
		r.batch.expect(i)
	}
	return r
}

// receive takes what has arrived, some of it, and hands each packet on. It
// returns how many datagrams it took: a full batch means that there may be more.
func (r *receiver) receive(to Sink) (n int) {
	n = r.call()
	if n == 0 {
		r.successfulCalls, r.times.drained = 0, true
		return 0
	}
	r.since = r.times.received(r.clock)
	r.times.drained = r.batched() && n < len(r.batch.msgs)
	r.successfulCalls++
	r.largeBatches = n > 1 || !r.largeBatches && r.successfulCalls > 2 // a reply and an acknowledgement are none
	r.take(n, to)
	return n
}

// receiveFrom is like receive, for another socket of the same address. The arrival times
// are those of that socket.
func (r *receiver) receiveFrom(fd int, times *arrivalTimes, to Sink) (n int) {
	n = r.batch.receive(fd)
	if n > 0 {
		r.since = times.received(r.clock)
	}
	times.drained = n < len(r.batch.msgs)
	r.take(n, to)
	return n
}

// take passes the first n packets of the batch on.
func (r *receiver) take(n int, to Sink) {
	taken := uint64(0)
	for i := range n {
		if p, flaw := r.check(i); flaw != counters.RcvdPkts {
			r.counts.Inc(flaw)
		} else if to.Receive(p, &r.from.header) {
			taken++
		} else {
			r.counts.Inc(counters.RcvdNoQPErr)
		}
		r.batch.expect(i) // the length of the name was set
	}
	r.counts.Add(counters.RcvdPkts, taken)
}

// stampEvery is after how many calls that receive packets the clock is read.
const stampEvery = 16

// arrivalTimes record after which time the packets of one socket have arrived. Each
// socket has its own record, because packets may wait in one socket while another is
// read. The zero value says that they arrived after the clock began.
type arrivalTimes struct {
	stamp   time.Duration // time of one of the last calls that received packets
	stamped uint8         // number of calls that received packets since stamp
	since   time.Duration // the packets of the last such call arrived after this time
	drained bool          // the last call has emptied the socket
}

// received is called after a call that received packets, and returns a time after which
// they arrived. Reading the clock takes a quarter of the time of checking a packet, so it
// is read for some calls only. The time may therefore be earlier than necessary.
func (a *arrivalTimes) received(clock func() time.Duration) time.Duration {
	if a.drained {
		a.since = a.stamp
	}
	if a.stamped++; a.stamped == stampEvery {
		a.stamped, a.stamp = 0, clock()
	}
	return a.since
}

// receiveHeaders has the system tell what the IP header of each packet says. That
// takes longer, so only datagram queue pairs ask for it, who hand it on.
func (r *receiver) receiveHeaders() {
	if r.receivesHeaders || !receiveHeadersAt(r.fd, r.local) {
		return // the default values are used, as for other queue pairs
	}
	r.receivesHeaders, r.batch.wantsControl = true, true
	for i := range r.batch.msgs {
		r.batch.expect(i)
	}
}

// receiveHeadersAt makes the system report the IP headers of the packets at a socket,
// and returns whether it can.
func receiveHeadersAt(fd int, local netip.AddrPort) bool {
	level, options := unix.IPPROTO_IP, [...]int{unix.IP_RECVTOS, unix.IP_RECVTTL}
	if local.Addr().Is6() {
		level, options = unix.IPPROTO_IPV6, [...]int{unix.IPV6_RECVTCLASS, unix.IPV6_RECVHOPLIMIT}
	}
	for _, option := range options {
		if unix.SetsockoptInt(fd, level, option, 1) != nil {
			return false
		}
	}
	return true
}

// call asks for one packet as long as they come one by one: a batch takes longer
// to find out that there is only one, or none. Only a batch tells headers.
func (r *receiver) call() (n int) {
	if r.batched() {
		return r.batch.receive(r.fd)
	}
	return r.batch.receiveOne(r.fd)
}

func (r *receiver) batched() bool { return r.largeBatches || r.receivesHeaders }

// check decodes datagram i, and says what it counts as: a flaw, or counters.RcvdPkts.
func (r *receiver) check(i int) (wire.Packet, counters.ID) {
	data, complete := r.batch.received(i)
	if !complete {
		return wire.Packet{}, counters.RcvdMalformedErr
	}
	p, err := wire.Decode(data)
	if err != nil {
		return p, counters.RcvdMalformedErr
	}
	// The ICRC covers the sender's port, which network cards vary.
	from := r.from
	if at := r.batch.names[i].get(); at != from.at {
		from = r.known.find(at, r.local)
	}
	id, ok := from.flow.Verify(p)
	switch {
	case !ok:
		return p, counters.RxICRCEncapsulated
	case r.local.Addr().Is4() && !from.idents.Fits(id, r.since, r.clock):
		return p, counters.RcvdIdentErr
	}
	r.from = r.known.keep(from)
	if r.receivesHeaders {
		r.from.header.TrafficClass, r.from.header.HopLimit = r.batch.header(i)
	}
	return p, counters.RcvdPkts
}
