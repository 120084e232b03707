// Package netsim simulates a network that drops, duplicates, delays, reorders and
// corrupts packets. The same seed and calls give the same result. No call waits, because
// the caller passes the present time.
package netsim

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"time"
)

// A Config describes a network. Drop, Duplicate, Corrupt and Reorder are probabilities
// from 0 to 1. The zero value is a network without faults and delay.
type Config struct {
	Drop      float64 // a packet does not arrive
	Duplicate float64 // a packet arrives twice
	Corrupt   float64 // a packet arrives with one flipped bit
	// A packet gets an additional delay, and later packets may overtake it.
	Reorder float64
	Delay   time.Duration // delay of every packet
	// Largest additional delay of reordered packets and duplicates.
	Jitter time.Duration
	// Largest number of packets in flight. Further packets are dropped. 0 means no limit.
	Limit int
}

// A Packet is a packet with its addresses. The network does not use the addresses.
type Packet struct {
	From, To netip.Addr
	Data     []byte
}

// A Stats counts packets. A duplicate counts in Delivered but not in Sent.
type Stats struct {
	Sent, Dropped, Duplicated, Corrupted, Reordered, Delivered int
}

// A Net is a simulated network. Only one goroutine may use it.
type Net struct {
	// Config may be changed at any time. The change affects later packets.
	Config Config
	Stats  Stats

	rng   *rand.Rand
	queue packetHeap
	sent  uint64
	spare [][]byte // buffers that Send uses again
	last  []byte   // data of the packet that Receive returned last
}

// New creates a network. The same seed and calls give the same faults.
func New(seed uint64, cfg Config) *Net {
	// The seed of the generator has two numbers. This is the second one. Arbitrary.
	const stream = 0x6e657473696d
	return &Net{Config: cfg, rng: rand.New(rand.NewPCG(seed, stream))}
}

// Send sends a copy of the packet. The parameter now is the present time in nanoseconds.
func (n *Net) Send(now int64, p Packet) {
	n.Stats.Sent++
	if n.happens(n.Config.Drop) || n.Config.Limit > 0 && len(n.queue) >= n.Config.Limit {
		n.Stats.Dropped++
		return
	}
	at := now + int64(n.Config.Delay)
	if n.happens(n.Config.Duplicate) {
		n.Stats.Duplicated++
		n.queueAt(at+n.jitter(), p)
	}
	if n.happens(n.Config.Reorder) {
		n.Stats.Reordered++
		at += n.jitter()
	}
	n.queueAt(at, p)
}

func (n *Net) queueAt(at int64, p Packet) {
	p.Data = append(n.buffer(), p.Data...)
	if len(p.Data) > 0 && n.happens(n.Config.Corrupt) {
		n.Stats.Corrupted++
		p.Data[n.rng.IntN(len(p.Data))] ^= 1 << n.rng.IntN(8)
	}
	n.sent++
	heap.Push(&n.queue, packetInFlight{at: at, order: n.sent, packet: p})
}

// Next returns the arrival time of the next packet. If no packet is in flight, ok is
// false.
func (n *Net) Next() (at int64, ok bool) {
	if len(n.queue) == 0 {
		return 0, false
	}
	return n.queue[0].at, true
}

// Receive returns the next packet that has arrived. The parameter now is the present time
// in nanoseconds. The packet's data is valid until the next call of Receive.
func (n *Net) Receive(now int64) (p Packet, ok bool) {
	if n.last != nil {
		n.spare = append(n.spare, n.last)
		n.last = nil
	}
	if len(n.queue) == 0 || n.queue[0].at > now {
		return Packet{}, false
	}
	n.Stats.Delivered++
	p = heap.Pop(&n.queue).(packetInFlight).packet
	n.last = p.Data
	return p, true
}

// happens returns true with the given probability, from 0 to 1.
func (n *Net) happens(fraction float64) bool { return fraction > 0 && n.rng.Float64() < fraction }

func (n *Net) jitter() int64 {
	if n.Config.Jitter <= 0 {
		return 0
	}
	return n.rng.Int64N(int64(n.Config.Jitter))
}

func (n *Net) buffer() []byte {
	if last := len(n.spare) - 1; last >= 0 {
		b := n.spare[last]
		n.spare = n.spare[:last]
		return b[:0]
	}
	return nil
}

// A packetInFlight is a packet that has not been delivered.
type packetInFlight struct {
	at int64
	// Number of the packet. Of packets with the same arrival time, the one with the lower
	// number arrives first.
	order  uint64
	packet Packet
}

// packetHeap is a heap of packets by arrival time.
type packetHeap []packetInFlight

func (f packetHeap) Len() int { return len(f) }
func (f packetHeap) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f packetHeap) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

// Push appends a packet. Only package heap calls it.
func (f *packetHeap) Push(x any) { *f = append(*f, x.(packetInFlight)) }

// Pop removes the last packet. Only package heap calls it.
func (f *packetHeap) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	(*f)[last] = packetInFlight{}
	*f = (*f)[:last]
	return x
}
