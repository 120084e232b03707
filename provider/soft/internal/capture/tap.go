package capture

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// A Tap takes copies of packets for a Capture.
type Tap struct {
	capture *Capture
	lock    *sync.Mutex // nil if only one goroutine at a time uses the Tap
	ring    ring
	packets [interfaces]atomic.Uint64 // number of packets, with those that were dropped
	dropped [interfaces]atomic.Uint64

	head [packetHead + ip6Size + udpSize]byte // what precedes the packet in its block
	tail [3 + packetTail]byte                 // what follows it
	// Flow of the last packet. A new Flow is slower.
	flow     wire.Flow
	from, to netip.AddrPort
	scratch  [wire.MaxPacket]byte // see Scratch
}

// A Header has the fields of the IP and UDP headers of a packet.
type Header struct {
	From, To     netip.AddrPort
	TrafficClass uint8
	HopLimit     uint8 // 0 means defaultHopLimit
}

// defaultHopLimit is Linux's default hop limit (ip_default_ttl, ip(7)).
const defaultHopLimit = 64

// Header sizes in bytes, and the protocol number of UDP.
const (
	ip4Size  = 20
	ip6Size  = 40
	udpSize  = 8
	protoUDP = 17
)

// Packet records a packet that was sent or received on the wire path. The parameter p is the
// payload of a UDP datagram, which may be no packet of RoCEv2.
func (t *Tap) Packet(d Direction, h *Header, p []byte) {
	t.enter()
	if t.admit(Wire, h, len(p)) {
		t.put(Wire, d, h, t.identification(h, p), p)
	}
	t.leave()
}

// LocalPacket records a packet that was built for the capture: what was sent or received on
// the local path. It writes the ICRC to the packet.
func (t *Tap) LocalPacket(d Direction, h *Header, p wire.Packet) {
	t.enter()
	if t.admit(Local, h, len(p.Bytes())) {
		t.putLocal(d, h, p)
	}
	t.leave()
}

// putLocal writes a packet of the local path, which was admitted, and its ICRC.
func (t *Tap) putLocal(d Direction, h *Header, p wire.Packet) {
	t.useFlow(h)
	t.flow.Seal(p, 0)
	t.put(Local, d, h, 0, p.Bytes())
}

// Scratch returns memory in which the owner of the Tap can build the packet for LocalPacket.
func (t *Tap) Scratch() []byte { return t.scratch[:] }

func (t *Tap) enter() {
	if t.lock != nil {
		t.lock.Lock()
	}
}

func (t *Tap) leave() {
	if t.lock != nil {
		t.lock.Unlock()
	}
}

// identification returns the IP identification of a packet. No socket reports it, but the
// ICRC covers it. If the packet is damaged, or is no packet of RoCEv2, the result is 0.
func (t *Tap) identification(h *Header, p []byte) uint16 {
	packet, err := wire.Decode(p)
	if err != nil {
		return 0
	}
	t.useFlow(h)
	id, _ := t.flow.Verify(packet)
	return id
}

func (t *Tap) useFlow(h *Header) {
	if h.From != t.from || h.To != t.to {
		t.from, t.to = h.From, h.To
		t.flow.Set(h.From, h.To)
	}
}

// admit counts a packet. The parameter length is its number of bytes from the BTH to the ICRC.
// If the ring has no room for the packet, admit counts it as dropped and returns false.
func (t *Tap) admit(i Interface, h *Header, length int) bool {
	t.packets[i].Add(1)
	if t.capture.failed.Load() || !t.ring.fits(packetBlock(t.kept(h.size()+length))) {
		t.dropped[i].Add(1)
		return false
	}
	return true
}

// kept returns how many bytes of a packet are in the file.
func (t *Tap) kept(length int) int { return min(length, t.capture.SnapLen) }

// put writes the block of a packet to the ring, which must have room for it.
func (t *Tap) put(i Interface, d Direction, h *Header, id uint16, p []byte) {
	headers := h.size()
	length := headers + len(p)
	kept := t.kept(length)
	b := appendPacketHead(t.head[:0], i, time.Now(), kept, length)
	b = h.append(b, id, p)
	t.ring.write(b[:packetHead+min(kept, headers)])
	t.ring.write(p[:max(kept-headers, 0)])
	t.ring.write(appendPacketTail(t.tail[:0], d, kept))
	if t.ring.publish() {
		select {
		case t.capture.wake <- struct{}{}:
		default:
		}
	}
}

// isIP4 reports whether the packet has an IPv4 header. Addresses may be IPv4-mapped.
func (h *Header) isIP4() bool { return h.From.Addr().Unmap().Is4() && h.To.Addr().Unmap().Is4() }

// size returns the size of the IP and UDP headers.
func (h *Header) size() int {
	if h.isIP4() {
		return ip4Size + udpSize
	}
	return ip6Size + udpSize
}

// append appends the IP and UDP headers of the packet p. Over IPv4 the UDP checksum is 0, which
// means that there is none (RFC 768). IPv6 needs one (RFC 8200, 8.1).
func (h *Header) append(b []byte, id uint16, p []byte) []byte {
	hops := h.HopLimit
	if hops == 0 {
		hops = defaultHopLimit
	}
	datagram := udpSize + len(p)
	start := len(b)
	if h.isIP4() {
		src, dst := h.From.Addr().Unmap().As4(), h.To.Addr().Unmap().As4()
		b = append(b, 0x45, h.TrafficClass)
		b = binary.BigEndian.AppendUint16(b, uint16(ip4Size+datagram))
		b = binary.BigEndian.AppendUint16(b, id)
		b = append(b, 0x40, 0, hops, protoUDP, 0, 0) // do not fragment (IBTA A17.3.1.1.5)
		b = append(append(b, src[:]...), dst[:]...)
		binary.BigEndian.PutUint16(b[start+10:], ^checksum(0, b[start:]))
		return h.appendUDP(b, datagram)
	}
	src, dst := h.From.Addr().As16(), h.To.Addr().As16()
	b = append(b, 0x60|h.TrafficClass>>4, h.TrafficClass<<4, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(datagram))
	b = append(b, protoUDP, hops)
	b = append(append(b, src[:]...), dst[:]...)
	b = h.appendUDP(b, datagram)
	// The checksum covers the addresses, the length, the protocol and the UDP datagram.
	sum := checksum(uint32(datagram)+protoUDP, b[start+8:])
	sum = ^checksum(uint32(sum), p)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(b[start+ip6Size+6:], sum)
	return b
}

// appendUDP appends a UDP header without checksum.
func (h *Header) appendUDP(b []byte, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, h.From.Port())
	b = binary.BigEndian.AppendUint16(b, h.To.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	return append(b, 0, 0)
}

// checksum adds bytes to a sum of the Internet checksum (RFC 1071), of which the result is not
// inverted yet.
func checksum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
