//go:build linux

package soft

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

const (
	slotSize   = 128
	inlineSize = slotSize - 4*8
	// maxFragment is the most payload of one slot: longer messages go in
	// pieces, so that the reader copies out while the writer copies in.
	maxFragment = 16 << 10
)

// A slot carries one fragment of a message, and up to 96 bytes of its payload.
// What is longer lies in the ring's area. Word 0 is stored last and names the
// slot's turn, so that it is also the sign that the slot is filled.
//
//	word 0  sequence (32) | operation (8) << 32 | flags (8) << 40
//	word 1  length (32) | immediate data (32) << 32
//	word 2  remote address                      operations on remote memory
//	word 3  remote key (32) | total (32) << 32  total: bytes of the whole message
type slotFrame struct {
	word [4]uint64
	data [inlineSize]byte
}

// A control block is written by one side and read by the other, apart from
// parked, which the reader clears.
type controlBlock struct {
	// ack answers the other side's requests: slots consumed (32) | syndrome
	// (8) << 32 | count of negative answers (24) << 40. The syndrome is that of
	// the AETH (IBTA vol. 1, 9.3.5), and a negative one is about the slot that
	// the count stands at.
	ack atomic.Uint64
	// resend counts how often the sender asks that the slot that was answered
	// with RNR NAK be tried again.
	resend atomic.Uint32
	// responses counts the response slots consumed.
	responses atomic.Uint32
	_         [48]byte

	// What follows changes seldom, and has a cache line of its own: the other
	// side looks at it after each message.

	// parked says that this side looks at its rings only after its doorbell
	// was rung, and for what it wants it rung: a wakeLevel.
	parked atomic.Uint32
	// state is a endState.
	state atomic.Uint32
	_     [56]byte
}

// wakeLevel is what a parked side wants to be woken for.
type wakeLevel = uint32

const (
	wakeNone  wakeLevel = iota // not parked
	wakeSlots                  // a request or a response
	wakeAll                    // acknowledgements too
)

// endState is whether a side answers.
type endState = uint32

const (
	sideAbsent endState = iota // not there yet
	sideActive
	sideSilent // its queue pair has left for the error state, or is gone
)

// The flags of a slot that only the local path has.
const (
	flagArea   = fragment.PathFlag << iota // the payload is in the area
	flagAckReq                             // the sender waits for the acknowledgement
)

// A ring is the shared part: slots and area.
type ring struct {
	slots []slotFrame
	area  []byte
}

// A producer fills one direction of a ring. Its counters are private; they
// wrap, and only their differences count.
type producer struct {
	ring
	tail        uint32 // slots put
	unpublished uint32 // those of them that are not shown
	firstWord   uint64 // word 0 of the first of these
	freed       uint32 // slots that the consumer has given back
	areaTail    uint32 // bytes of area used
	areaFreed   uint32
	areaEnd     []uint32 // areaTail behind each slot
}

func newProducer(r ring) producer {
	return producer{ring: r, areaEnd: make([]uint32, len(r.slots))}
}

// reserve returns room for a fragment of at most want bytes of payload: the
// place to copy to, maybe shorter than wanted, and whether it lies in the area;
// ok is false when the ring is full.
func (p *producer) reserve(want uint32) (dst []byte, inArea, ok bool) {
	if p.tail-p.freed == uint32(len(p.slots)) {
		return nil, false, false
	}
	if want <= inlineSize {
		return p.slots[p.tail&uint32(len(p.slots)-1)].data[:want], false, true
	}
	size := uint32(len(p.area))
	at := p.areaTail & (size - 1)
	room := min(want, maxFragment, size-at, size-(p.areaTail-p.areaFreed))
	if room == 0 {
		return nil, false, false
	}
	return p.area[at : at+room], true, true
}

// put fills in the slot whose payload was copied to where reserve said. Those
// that are put are handed over by show, together: the consumer looks at a slot
// only when it has seen the one before, so of a batch only the first slot's sign
// has to be stored last and atomically, and it stands for the others.
func (p *producer) put(f *fragment.Fragment) {
	index := p.tail & uint32(len(p.slots)-1)
	s := &p.slots[index]
	if f.Flags&flagArea != 0 {
		p.areaTail += alignArea(f.Length)
	}
	p.areaEnd[index] = p.areaTail
	s.word[1] = uint64(f.Length) | uint64(f.Imm)<<32
	if f.Op.Remote() {
		s.word[2] = f.Addr
		s.word[3] = uint64(f.Key) | uint64(f.Total)<<32
	}
	p.tail++
	sign := uint64(p.tail) | uint64(f.Op)<<32 | uint64(f.Flags)<<40
	if p.unpublished == 0 {
		p.firstWord = sign
	} else {
		s.word[0] = sign
	}
	p.unpublished++
}

// show hands over what was put.
func (p *producer) publishFirst() {
	if p.unpublished > 0 {
		first := &p.slots[(p.tail-p.unpublished)&uint32(len(p.slots)-1)]
		p.unpublished = 0
		atomic.StoreUint64(&first.word[0], p.firstWord)
	}
}

// publish is put and show.
func (p *producer) publish(f *fragment.Fragment) {
	p.put(f)
	p.publishFirst()
}

// free takes back what the consumer says it has consumed, and reports whether
// that can be true.
func (p *producer) free(head uint32) bool {
	if head-p.freed > p.tail-p.freed {
		return false
	}
	if head != p.freed {
		p.freed = head
		p.areaFreed = p.areaEnd[(head-1)&uint32(len(p.slots)-1)]
	}
	return true
}

// alignArea rounds up to cache lines, so that two fragments share none.
func alignArea(n uint32) uint32 { return (n + 63) &^ 63 }

// A consumer empties one direction of a ring. It believes nothing it reads.
type consumer struct {
	ring
	head     uint32
	areaHead uint32
}

// ready reports whether there is a slot to consume.
func (c *consumer) ready() bool {
	return uint32(atomic.LoadUint64(&c.slots[c.head&uint32(len(c.slots)-1)].word[0])) == c.head+1
}

// peek copies the header of the next slot and finds its payload. more is false
// when there is none; ok is false when the header can not be true.
func (c *consumer) peek(r *fragment.Fragment) (more, ok bool) {
	s := &c.slots[c.head&uint32(len(c.slots)-1)]
	w := atomic.LoadUint64(&s.word[0])
	if uint32(w) != c.head+1 {
		return false, true
	}
	s.fetch()
	// Each word is loaded once, so that what is checked is what is used.
	r.Op, r.Flags = fragment.Op(w>>32), fragment.Flags(w>>40)
	w = atomic.LoadUint64(&s.word[1])
	r.Length, r.Imm = uint32(w), uint32(w>>32)
	if r.Op.Remote() {
		r.Addr = atomic.LoadUint64(&s.word[2])
		w = atomic.LoadUint64(&s.word[3])
		r.Key, r.Total = uint32(w), uint32(w>>32)
	}
	if r.Flags&flagArea == 0 {
		if r.Length > inlineSize {
			return true, false
		}
		r.Payload = s.data[:r.Length]
		return true, true
	}
	size := uint32(len(c.area))
	at := c.areaHead & (size - 1)
	if r.Length > size-at {
		return true, false
	}
	r.Payload = c.area[at : at+r.Length]
	return true, true
}

// advance consumes the slot that peek showed.
func (c *consumer) advance(f *fragment.Fragment) {
	c.head++
	if f.Flags&flagArea != 0 {
		c.areaHead += alignArea(f.Length)
	}
}
