//go:build linux

package udp

// drainLimit is the approximate number of packets after which Drain reads no more from a
// socket. By default a socket holds fewer packets (net.core.rmem_max).
const drainLimit = 2048

// Drain receives all packets that have arrived. It has to be called before timers fire,
// because a socket may have the acknowledgement for which a timer waits. One call reads
// only some packets. While Drain returns false, the caller calls it again with resume
// set to true. Even if packets arrive all the time, Drain ends after about drainLimit
// packets from each socket.
func (c *Conn) Drain(resume bool) (done bool) {
	if !resume {
		c.drain = drainProgress{}
	}
	for left := pollPackets; c.drain.socket < len(c.sockets); {
		if left -= c.drain.read(c.sockets[c.drain.socket]); left <= 0 {
			return false
		}
	}
	return true
}

// A drainProgress says which socket Drain reads next.
type drainProgress struct {
	socket int // index of the present localSocket in Conn.sockets
	// Number of the present socket in its localSocket. The number 0 means the socket that
	// receiver.receive reads. The overflow sockets have the numbers from 1. If a direct
	// socket is open, the next number after them means the first socket.
	overflow int
	packets  int // number of packets that were read from the present socket
}

// read reads a batch from the present socket of u, and returns the number of packets.
// When the socket is empty, or after drainLimit packets, it moves to the next socket.
func (d *drainProgress) read(u *localSocket) (packets int) {
	n := 0
	switch {
	case d.overflow == 0:
		n = u.recv.receive(u.conn.cfg.Sink)
	case d.overflow <= len(u.overflow.sockets):
		n = u.overflow.sockets[d.overflow-1].receive()
	case u.direct.state != directOff:
		n = u.direct.receiveFirst()
	}
	if n > 0 {
		packets = u.recv.packets
	}
	if d.packets += packets; n == 0 || d.packets >= drainLimit {
		d.packets, d.overflow = 0, d.overflow+1
	}
	if d.overflow > len(u.overflow.sockets)+u.direct.extraSockets() {
		d.overflow, d.socket = 0, d.socket+1
	}
	return packets
}
