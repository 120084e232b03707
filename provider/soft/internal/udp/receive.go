//go:build linux

package udp

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
)

// A receiver reads packets from a socket, and drops invalid ones. It never blocks. It
// reads one packet with each system call, or a batch if several packets usually wait.
type receiver struct {
	fd    int
	local netip.AddrPort
	batch *batch
	// Batch for merged packets. It is nil until the kernel merges packets for the first
	// time.
	merged  *batch
	merging merging
	// owns reports whether packets for a queue pair arrive at this receiver. It is nil
	// if the kernel may not merge packets for this receiver.
	owns    func(qpn uint32) bool
	full    bool    // true if the last call has filled its batch; more datagrams may wait
	packets int     // number of packets that the last successful call has found
	from    *source // source of the packet received last
	// Number of packets received since the source has changed. If the source has changed
	// within a batch, all packets of this batch count.
	sameSource int
	// Source to which the socket fd is connected. It is not valid if the socket is not
	// connected.
	peer            netip.AddrPort
	sources         sources
	successfulCalls int // number of calls in a row that found packets
	// true if the next call reads a batch
	largeBatches bool
	reports      reports       // what the kernel reports about each packet
	fields       controlFields // control messages of the datagram that deliver() handles

	// gsi says which packets are checked at all. It is nil for the sockets of shards.
	gsi GSISink

	clock func() time.Duration // returns the time since a fixed moment
	times arrivalTimes         // arrival times of the packets at the socket fd
	// Time before which no packet of the last successful call has arrived. It is a result
	// of the function clock.
	since time.Duration

	counts *counters.Set // counters of received packets; each packet adds 1 to one of them
	tap    *capture.Tap  // records all packets, also the invalid ones; may be nil
}

// newReceiver returns a receiver for the socket fd on the address local. One call of
// receive() reads at most batchSize datagrams. Datagrams of more than size bytes are
// dropped.
func newReceiver(fd int, local netip.AddrPort, batchSize, size int, counts *counters.Set) receiver {
	start := time.Now()
	r := receiver{
		fd: fd, local: local, batch: newBatch(batchSize, size), counts: counts, from: &source{},
		clock: func() time.Duration { return time.Since(start) },
	}
	for i := range batchSize {
		r.batch.prepareReceive(i)
	}
	return r
}

// mayMerge allows the kernel to merge packets for this receiver. The parameter owns is
// stored in the field owns.
func (r *receiver) mayMerge(owns func(qpn uint32) bool) {
	r.owns = owns
	r.merging = merging{wait: firstMergeWait}
	if canMerge(r.fd) {
		r.merging.state = mergeOff
	}
}

// receive reads packets and passes them to the sink. It returns the number of datagrams
// that it has read.
func (r *receiver) receive(to Sink) (n int) {
	from, n := r.read()
	r.full = n == len(from.msgs)
	if n == 0 {
		r.successfulCalls, r.times.drained = 0, true
		return 0
	}
	r.since = r.times.received(r.clock)
	r.times.drained = r.batched() && !r.full
	r.successfulCalls++
	// After three successful calls in a row the next call reads a batch. Two calls are
	// not enough, because the two packets may be an answer and an acknowledgement.
	r.largeBatches = n > 1 || !r.largeBatches && r.successfulCalls > 2
	r.packets = r.deliver(from, n, r.peer, to)
	r.sameSource += r.packets
	// In the state mergeOff, merging.received() counts only calls that have read many
	// datagrams.
	if (n >= manyDatagrams || r.merging.state == mergeOn) && r.merging.received(n, r.packets) {
		r.changeMerging()
	}
	return n
}

// changeMerging turns merging on or off, as the field merging says. A merged datagram
// that arrives just before merging is turned off is lost, because recvfrom(2) does not
// report the length of its packets.
func (r *receiver) changeMerging() {
	on := r.merging.state == mergeOn
	if on && r.merged == nil {
		r.merged = newBatch(mergedBatch, mergedBufSize)
		r.merged.wantsControl = true
		for i := range r.merged.msgs {
			r.merged.prepareReceive(i)
		}
	}
	if !setMerging(r.fd, on) {
		r.merging.state = mergeNever
	}
}

// receiveFrom reads a batch from the socket in its parameter fd, not from r.fd. The
// parameter times has the arrival times at that socket.
func (r *receiver) receiveFrom(fd int, times *arrivalTimes, to Sink) (n int) {
	n = r.batch.receive(fd)
	if n > 0 {
		r.since = times.received(r.clock)
	}
	times.drained = n < len(r.batch.msgs)
	r.packets = r.deliver(r.batch, n, netip.AddrPort{}, to)
	return n
}

// deliver checks the packets in the first n datagrams of a batch, and passes the valid
// ones to the sink. It returns the number of packets. If the parameter peer is valid, it
// is the source of all datagrams.
func (r *receiver) deliver(b *batch, n int, peer netip.AddrPort, to Sink) (packets int) {
	taken := uint64(0)
	for i := range n {
		data, complete := b.received(i)
		if !complete {
			data = nil // nil stands for an incomplete datagram.
		}
		segment := 0
		if b.wantsControl {
			r.fields = b.fields(i)
			segment = r.fields.segment
		}
		at := peer
		if !at.IsValid() {
			at = b.addrs[i].get()
		}
		n, valid := r.deliverDatagram(data, segment, at, to)
		packets, taken = packets+n, taken+valid
		// The system call has overwritten some lengths in message i, which the next call
		// needs.
		b.prepareReceive(i)
	}
	r.counts.Add(counters.RcvdPkts, taken)
	return packets
}

// deliverDatagram checks the packets in a datagram, and passes the valid ones to the
// sink. The parameter at is the source of the datagram. If the parameter segment is not
// 0, it is the length of the packets, but the last packet may be shorter. The results are
// the number of packets and the number of those that the sink has taken.
func (r *receiver) deliverDatagram(data []byte, segment int, at netip.AddrPort, to Sink) (packets int, taken uint64) {
	if segment <= 0 {
		segment = len(data)
	}
	for first := true; first || len(data) > 0; first = false {
		size := min(segment, len(data))
		if r.deliverPacket(data[:size], at, to) {
			taken++
		}
		data, packets = data[size:], packets+1
	}
	return packets, taken
}

// deliverPacket checks a packet, and passes it to the sink if it is valid. It returns
// true if the sink has taken it.
func (r *receiver) deliverPacket(data []byte, at netip.AddrPort, to Sink) (taken bool) {
	if r.tap != nil {
		r.record(data, at)
	}
	p, flaw := r.check(data, at)
	if flaw != counters.RcvdPkts {
		r.counts.Inc(flaw)
		return false
	}
	if to.Receive(p, &r.from.header) {
		return true
	}
	r.counts.Inc(counters.RcvdNoQPErr)
	if r.merging.state == mergeOn && !r.owns(p.BTH().DestQP()) && r.merging.stop(true) {
		// A network card has merged packets for several shards into one datagram, and
		// the kernel has passed the datagram to the shard of the first packet.
		r.changeMerging()
	}
	return false
}

// record passes a packet from the given source to the tap.
func (r *receiver) record(data []byte, from netip.AddrPort) {
	h := capture.Header{From: from, To: r.local}
	if r.reports != 0 {
		h.TrafficClass, h.HopLimit = r.fields.class, r.fields.hops
	}
	r.tap.Packet(capture.Inbound, &h, data)
}

// stampEvery is the number of successful receive calls for each reading of the clock. A
// call is successful if it has found packets. Arbitrary.
const stampEvery = 16

// An arrivalTimes has a lower limit of the arrival times of packets at a socket. If a
// call has left the socket empty, all later packets arrive after the time in the field
// stamp.
type arrivalTimes struct {
	stamp   time.Duration // time of a recent successful call
	stamped uint8         // number of successful calls since the field stamp was set
	// time before which no packet of the last successful call has arrived
	since   time.Duration
	drained bool // true if the last call has left no packets in the socket
}

// received is called after each successful call. It returns a lower limit of the arrival
// times of this call's packets. It reads the clock only once in stampEvery calls.
func (a *arrivalTimes) received(clock func() time.Duration) time.Duration {
	if a.drained {
		a.since = a.stamp
	}
	if a.stamped++; a.stamped == stampEvery {
		a.stamped, a.stamp = 0, clock()
	}
	return a.since
}

// A reports is a set of what the kernel reports about each packet, in control messages.
// Calls that read them are slower.
type reports uint8

const (
	reportHeaders reports = 1 << iota // traffic class and hop limit; for UD queue pairs
	reportTimes                       // Header.Time
)

// report makes the kernel report more about each packet. What it does not report keeps the
// default value.
func (r *receiver) report(more reports) {
	if more &^= r.reports; more == 0 {
		return
	}
	r.reports |= reportAt(r.fd, r.local, more)
	r.batch.wantsControl = r.reports != 0
	for i := range r.batch.msgs {
		r.batch.prepareReceive(i)
	}
}

// reportAt makes the kernel report more about packets at the socket fd. It returns what the
// kernel has accepted.
func reportAt(fd int, local netip.AddrPort, more reports) (accepted reports) {
	if more&reportHeaders != 0 && receiveHeadersAt(fd, local) {
		accepted |= reportHeaders
	}
	if more&reportTimes != 0 && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil {
		accepted |= reportTimes
	}
	return accepted
}

// receiveHeadersAt makes the kernel report header fields of packets at the socket fd. It
// returns false on failure.
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

// read reads one datagram or a batch. It returns the batch that has the datagrams, and
// their number.
func (r *receiver) read() (from *batch, n int) {
	switch {
	case r.merging.state == mergeOn:
		return r.merged, r.merged.receive(r.fd)
	case r.batched():
		return r.batch, r.batch.receive(r.fd)
	case r.peer.IsValid():
		return r.batch, r.batch.receiveOneConnected(r.fd)
	}
	return r.batch, r.batch.receiveOne(r.fd)
}

// batched reports whether the next call reads a batch instead of one datagram.
func (r *receiver) batched() bool {
	return r.largeBatches || r.reports != 0 || r.merging.state == mergeOn
}

// check decodes a packet. The parameter at is the source of the packet. The result is the
// counter RcvdPkts if the packet is valid, and otherwise the counter of the error.
func (r *receiver) check(data []byte, at netip.AddrPort) (wire.Packet, counters.ID) {
	p, err := wire.Decode(data)
	if err != nil {
		return p, counters.RcvdMalformedErr
	}
	if r.gsi != nil && !r.gsi.Wants(p, at.Addr(), r.local.Addr()) {
		return p, counters.CMRequestUnread
	}
	// The ICRC covers the port, so a source is an address with a port. A network card may
	// use several ports for one peer.
	from := r.from
	if at != from.at {
		from = r.sources.find(at, r.local)
		r.sameSource = 0
	}
	id, ok := from.flow.Verify(p)
	switch {
	case !ok:
		return p, counters.RxICRCEncapsulated
	case r.local.Addr().Is4() && !from.idents.Fits(id, r.since, r.clock):
		return p, counters.RcvdIdentErr
	}
	r.from = r.sources.keep(from)
	if r.reports != 0 {
		h := &r.from.header
		h.TrafficClass, h.HopLimit, h.Time = r.fields.class, r.fields.hops, r.fields.time
	}
	return p, counters.RcvdPkts
}

// A GSISink receives the packets of a GSISocket.
type GSISink interface {
	Sink
	// Wants is called for each packet before its ICRC is checked. If it returns false, the
	// packet is counted as cm_request_unread and dropped. So the sink can drop a part of a
	// flood for little more than the system call that has received it.
	Wants(p wire.Packet, from, to netip.Addr) bool
}

// A GSISocket sends and receives the packets of queue pair 1, which is for connection
// management (IBTA vol. 1, 13.5). It belongs to one local address. Only one goroutine at
// a time may use it.
type GSISocket struct {
	port *localPort
	out  sender
	in   receiver
	dest destination // destination of the packet that Send sends
}

// OpenGSI opens the socket of a local address for packets to queue pair 1. One call of
// Receive reads at most batchSize packets. Packets longer than the given size in bytes
// are dropped.
func (ps *Ports) OpenGSI(local netip.Addr, batchSize, size int, counts *counters.Set) (*GSISocket, error) {
	port, err := ps.acquire(local)
	if err != nil {
		return nil, err
	}
	s := &GSISocket{
		port: port,
		out:  newSender(port.gsi, 1, size, counts),
		in:   newReceiver(port.gsi, port.local, batchSize, size, counts),
	}
	s.out.tap, s.in.tap = ps.Tap, ps.Tap
	return s, nil
}

// FD returns the descriptor of the socket. It is readable when packets have arrived.
func (s *GSISocket) FD() int { return s.port.gsi }

// Local returns the local address and port.
func (s *GSISocket) Local() netip.AddrPort { return s.port.local }

// Close releases the local address. The last user of the address closes all its sockets.
func (s *GSISocket) Close() { s.port.release() }

// Receive passes packets that have arrived to the sink. It returns the number of
// datagrams, and does not block.
func (s *GSISocket) Receive(to GSISink) int {
	s.in.gsi = to
	return s.in.receive(to)
}

// Buffer returns memory for the next packet. The memory is valid until Send. Buffer
// returns nil while the kernel accepts no packets.
func (s *GSISocket) Buffer() []byte { return s.out.buffer() }

// Send sends a packet that is in the memory from the last call of Buffer. The packet
// must be complete except for its ICRC. Send ignores errors.
func (s *GSISocket) Send(p wire.Packet, to netip.Addr) {
	s.dest = destination{}
	s.dest.set(s.port.local, destHeader{remote: to})
	s.out.put(p, &s.dest, 0)
	s.out.flush()
}
