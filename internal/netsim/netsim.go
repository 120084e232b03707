// Package netsim is a network for tests: it drops, duplicates, delays, reorders
// and damages packets, by chance, and the same way again for the same seed. It
// lives in virtual time, which its user keeps: nothing in it waits.
package netsim

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"time"
)

// A Config says what a network does to packets. The fractions are from 0, never,
// to 1, always. The zero value is a network that does nothing to them, and takes
// no time.
type Config struct {
	Drop      float64       // packets that do not arrive
	Duplicate float64       // packets that arrive twice
	Corrupt   float64       // packets that arrive with one bit changed
	Reorder   float64       // packets that others may overtake
	Delay     time.Duration // what every packet takes
	Jitter    time.Duration // what those take in addition, at most, that are overtaken or come twice
	Room      int           // packets that may be on their way; what is beyond does not arrive; 0 is any number
}

// A Packet is what travels. The addresses have no meaning to the network.
type Packet struct {
	From, To netip.Addr
	Data     []byte
}

// Stats count what became of packets.
type Stats struct {
	Sent, Dropped, Duplicated, Corrupted, Reordered, Delivered int
}

// A Net is a network. It belongs to one goroutine.
type Net struct {
	// Config may be changed at any time; it counts for what is sent from then
	// on.
	Config Config
	Stats  Stats

	rng   *rand.Rand
	queue flights
	sent  uint64
	spare [][]byte // storage of delivered packets
	last  []byte   // storage of the packet that was delivered last
}

// New makes a network whose chances depend on seed only.
func New(seed uint64, cfg Config) *Net {
	const stream = 0x6e657473696d // any constant does
	return &Net{Config: cfg, rng: rand.New(rand.NewPCG(seed, stream))}
}

// Send sends a packet at a time, in nanoseconds. The data is copied.
func (n *Net) Send(now int64, p Packet) {
	n.Stats.Sent++
	if n.happens(n.Config.Drop) || n.Config.Room > 0 && len(n.queue) >= n.Config.Room {
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
	heap.Push(&n.queue, flight{at: at, order: n.sent, packet: p})
}

// Next is the time at which the next packet arrives, or false when none is on
// its way.
func (n *Net) Next() (at int64, ok bool) {
	if len(n.queue) == 0 {
		return 0, false
	}
	return n.queue[0].at, true
}

// Receive takes the next packet that has arrived by now. Its data is valid until
// the next call.
func (n *Net) Receive(now int64) (p Packet, ok bool) {
	if n.last != nil {
		n.spare = append(n.spare, n.last)
		n.last = nil
	}
	if len(n.queue) == 0 || n.queue[0].at > now {
		return Packet{}, false
	}
	n.Stats.Delivered++
	p = heap.Pop(&n.queue).(flight).packet
	n.last = p.Data
	return p, true
}

// happens decides by chance. What never happens uses up no chance.
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

// A flight is a packet on its way.
type flight struct {
	at     int64
	order  uint64 // of sending, among those that arrive at the same time
	packet Packet
}

// flights is a heap, the next arrival first.
type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

// Push is part of heap.Interface.
func (f *flights) Push(x any) { *f = append(*f, x.(flight)) }

// Pop is part of heap.Interface.
func (f *flights) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	(*f)[last] = flight{}
	*f = (*f)[:last]
	return x
}
