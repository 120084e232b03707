//go:build linux

package udp

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

const (
	// firstDirectWait is the initial value of directSocket.wait. Opening a direct socket
	// takes as long as receiving 50 packets. Arbitrary.
	firstDirectWait = 1024
	// maxDirectWait limits directSocket.wait. Arbitrary.
	maxDirectWait = 1 << 20
	// firstEvery is the number of polls of a direct socket after which the first socket of
	// the shard is read too. Arbitrary.
	firstEvery = 16
	// minDirectPackets is the number of packets that must arrive at the direct socket
	// between two batches of the first socket. If fewer packets arrive, the direct socket
	// is closed. Arbitrary.
	minDirectPackets = 256
	// discardPort is a UDP port from which no packets come (RFC 863).
	discardPort = 9
)

// directState says whether a localSocket has a direct socket.
type directState uint8

const (
	// directOff: there is no direct socket. A localSocket begins in this state. Many
	// packets from one source lead to directOn.
	directOff directState = iota
	// directOn: the direct socket receives the packets of one source. Each poll reads
	// the direct socket, and few polls read the first socket. Packets of other sources,
	// a second shard, or another socket of the shard lead to directOff. A call of Arm
	// leads to directEnding.
	directOn
	// directEnding: the next poll leads to directOff.
	directEnding
)

// A directSocket is the direct socket of a localSocket: a second socket, connected to the
// socket from which all packets come. The kernel finds the direct socket without the BPF
// program of steer(), and need not report the source. This saves 240 ns for each packet;
// see docs/performance.md. The socket that every localSocket has is called its first
// socket.
//
// A localPort with one shard may have a direct socket. A localPort with several shards
// may not, because the direct socket receives the packets for all queue pairs. A direct
// socket is closed before the owner sleeps, so that epoll need not watch it.
type directSocket struct {
	first *localSocket
	state directState
	wait  int // number of packets from one source that lead from directOff to directOn
	polls int // number of polls since the last read of the first socket
	// arrival times of the packets at the first socket; not valid in the state directOff
	times arrivalTimes
}

// begin is called when the number of packets in a row from one source has reached the
// field wait. If possible, begin opens the direct socket and sets the state directOn. It
// passes the packets that wait in the first socket to the sink, because they are older
// than those in the direct socket.
func (d *directSocket) begin() {
	u, r := d.first, &d.first.recv
	r.sameSource = 0
	if r.from.header.Socket == 0 || r.reports != 0 || r.merging.state == mergeOn || len(u.overflow.sockets) > 0 {
		return
	}
	fd, err := u.port.openDirect(r.from.at)
	if err != nil {
		d.wait = maxDirectWait
		return
	}
	source := r.from.at
	for range drainLimit / receiveBatch {
		if r.receiveFrom(u.fd, &r.times, u.conn.cfg.Sink) < receiveBatch {
			break
		}
	}
	d.state, d.polls, d.times = directOn, 0, r.times
	r.fd, r.peer, r.times = fd, source, arrivalTimes{}
}

// poll is called in each poll of the localSocket, unless the state is directOff. After
// each firstEvery calls, poll reads the first socket too. If too few packets have arrived
// at the direct socket, poll closes the direct socket. The result is true if poll has
// found packets.
func (d *directSocket) poll() (found bool) {
	u := d.first
	if d.state == directEnding || u.port.directEnded.Load() || u.recv.reports != 0 {
		d.end()
		return true
	}
	if d.polls++; d.polls < firstEvery {
		return false
	}
	d.polls = 0
	before := u.recv.sameSource
	if d.receiveFirst() == 0 {
		return false
	}
	if before < minDirectPackets {
		d.end()
	}
	return true
}

// receiveFirst reads a batch from the first socket, and returns the number of datagrams.
func (d *directSocket) receiveFirst() int {
	return d.first.recv.receiveFrom(d.first.fd, &d.times, d.first.conn.cfg.Sink)
}

// report is called after receiver.report, which has changed the direct socket if it is open.
// It makes the kernel report the same at the first socket. The next poll closes the direct
// socket.
func (d *directSocket) report() {
	if d.state != directOff {
		reportAt(d.first.fd, d.first.port.local, d.first.recv.reports)
	}
}

// extraSockets returns how many sockets must be read in addition to the socket of
// receiver.receive.
func (d *directSocket) extraSockets() int {
	if d.state == directOff {
		return 0
	}
	return 1
}

// mustEnd is called before the owner may sleep. If it returns true, the owner must call
// Poll before it sleeps.
func (d *directSocket) mustEnd() bool {
	d.first.recv.sameSource = 0
	if d.state == directOff {
		return false
	}
	d.state = directEnding
	return true
}

// end closes the direct socket and sets the state directOff. It first makes sure that no
// further packets arrive at the direct socket, and passes the packets that wait there to
// the sink.
func (d *directSocket) end() {
	u, r := d.first, &d.first.recv
	// The call of Connect fails if the local address was removed, or if replaceDirect was
	// called. In both cases no more packets arrive at this socket.
	_ = unix.Connect(r.fd, hostport.Sockaddr(u.port.local.Addr(), discardPort))
	for read := 0; read < drainLimit && r.receive(u.conn.cfg.Sink) > 0; {
		read += r.packets
	}
	r.deliverLate(u.port.closeDirect(), r.peer, u.conn.cfg.Sink)
	d.readFirst()
	d.wait = min(2*d.wait, maxDirectWait)
}

// close is called when no open route uses the localSocket. It closes the direct socket,
// if there is one, and drops the packets that wait in the direct socket.
func (d *directSocket) close() {
	if d.state != directOff {
		d.first.port.closeDirect()
		d.readFirst()
	}
	d.wait = firstDirectWait
}

// readFirst makes the receiver read the first socket after the direct socket was closed.
// It sets the state directOff.
func (d *directSocket) readFirst() {
	r := &d.first.recv
	r.fd, r.peer, r.times, r.sameSource = d.first.fd, netip.AddrPort{}, d.times, 0
	if r.merging.state == mergeOn && r.merging.stop(true) {
		r.changeMerging()
	}
	d.state = directOff
}
