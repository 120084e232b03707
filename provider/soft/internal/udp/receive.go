//go:build linux

package udp

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A receiver reads packets from a socket, and drops datagrams that are no valid packets.
// It never blocks. It reads one packet in a call while packets arrive one at a time, and
// a batch in a call while several wait, because a batch takes longer to find out that
// there is one packet, or none.
type receiver struct {
	fd              int
	local           netip.AddrPort
	batch           *batch
	from            *source // source of the last packet
	sources         sources
	successfulCalls int  // number of calls in a row that received packets
	largeBatches    bool // several packets usually wait, so a call reads a batch
	receivesHeaders bool // the system reports the IP header of each packet

	clock func() time.Duration // time since the receiver was made
	times arrivalTimes         // of the packets in fd
	since time.Duration        // the packets in batch arrived after this time

	counts *counters.Set // each datagram is counted in one of the counters
}

// newReceiver returns a receiver for the socket fd with the address local. A call reads
// at most packets datagrams, each of at most size bytes.
func newReceiver(fd int, local netip.AddrPort, packets, size int, counts *counters.Set) receiver {
	start := time.Now()
	r := receiver{
		fd: fd, local: local, batch: newBatch(packets, size), counts: counts, from: &source{},
		clock: func() time.Duration { return time.Since(start) },
	}
	for i := range packets {
		r.batch.prepareReceive(i)
	}
	return r
}

// receive reads some of the packets that have arrived, and passes each to the sink. It
// returns the number of datagrams that it has read. If the batch was full, there may be
// more.
func (r *receiver) receive(to Sink) (n int) {
	n = r.read()
	if n == 0 {
		r.successfulCalls, r.times.drained = 0, true
		return 0
	}
	r.since = r.times.received(r.clock)
	r.times.drained = r.batched() && n < len(r.batch.msgs)
	r.successfulCalls++
	r.largeBatches = n > 1 || !r.largeBatches && r.successfulCalls > 2 // an answer and an acknowledgement make no large batch
	r.deliver(n, to)
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
	r.deliver(n, to)
	return n
}

// deliver checks the first n datagrams of the batch, and passes the valid ones to the
// sink.
func (r *receiver) deliver(n int, to Sink) {
	taken := uint64(0)
	for i := range n {
		if p, flaw := r.check(i); flaw != counters.RcvdPkts {
			r.counts.Inc(flaw)
		} else if to.Receive(p, &r.from.header) {
			taken++
		} else {
			r.counts.Inc(counters.RcvdNoQPErr)
		}
		r.batch.prepareReceive(i) // recvmmsg has changed the lengths
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

// receiveHeaders makes the system report the IP header of each packet. A call then takes
// longer, so only UD queue pairs request it, which pass the header to the program.
func (r *receiver) receiveHeaders() {
	if r.receivesHeaders || !receiveHeadersAt(r.fd, r.local) {
		return // Header has the default values, as for other queue pairs
	}
	r.receivesHeaders, r.batch.wantsControl = true, true
	for i := range r.batch.msgs {
		r.batch.prepareReceive(i)
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

// read reads one datagram, or a batch; see receiver. Only a batch has the IP headers.
func (r *receiver) read() (n int) {
	if r.batched() {
		return r.batch.receive(r.fd)
	}
	return r.batch.receiveOne(r.fd)
}

// batched reports whether a call reads a batch.
func (r *receiver) batched() bool { return r.largeBatches || r.receivesHeaders }

// check decodes datagram i. It returns the counter for the datagram, which is RcvdPkts if
// the packet is valid.
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
	if at := r.batch.addrs[i].get(); at != from.at {
		from = r.sources.find(at, r.local)
	}
	id, ok := from.flow.Verify(p)
	switch {
	case !ok:
		return p, counters.RxICRCEncapsulated
	case r.local.Addr().Is4() && !from.idents.Fits(id, r.since, r.clock):
		return p, counters.RcvdIdentErr
	}
	r.from = r.sources.keep(from)
	if r.receivesHeaders {
		r.from.header.TrafficClass, r.from.header.HopLimit = r.batch.ipFields(i)
	}
	return p, counters.RcvdPkts
}
