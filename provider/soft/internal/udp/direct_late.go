//go:build linux

package udp

import (
	"bytes"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

// A lateDatagram is a datagram that waited in a direct socket when another goroutine
// replaced the socket. The shard delivers it after the end of the direct socket.
type lateDatagram struct {
	data   []byte // data of one packet, or of several merged packets
	fields controlFields
}

// receiveLate receives the datagrams that wait in a direct socket. It first makes sure
// that no further datagrams arrive at the socket. It receives at most drainLimit
// datagrams.
func receiveLate(fd int, local netip.Addr) (late []lateDatagram) {
	// The call of Connect fails if the local address was removed. In this case no more
	// datagrams arrive at the socket.
	_ = unix.Connect(fd, hostport.Sockaddr(local, discardPort))
	b := newBatch(1, mergedBufSize)
	b.wantsControl = true
	for range drainLimit {
		b.prepareReceive(0)
		if b.receive(fd) == 0 {
			break
		}
		if data, complete := b.received(0); complete {
			late = append(late, lateDatagram{bytes.Clone(data), b.fields(0)})
		}
	}
	return late
}

// deliverLate checks the packets in late datagrams, and passes the valid ones to the
// sink. The parameter peer is their source.
func (r *receiver) deliverLate(late []lateDatagram, peer netip.AddrPort, to Sink) {
	for _, l := range late {
		r.fields = l.fields
		_, taken := r.deliverDatagram(l.data, l.fields.segment, peer, to)
		r.counts.Add(counters.RcvdPkts, taken)
	}
}
