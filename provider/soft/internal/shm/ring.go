//go:build linux

package shm

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

const (
	SlotSize   = 128            // size of a slot in bytes: two cache lines
	inlineSize = SlotSize - 4*8 // number of bytes of payload that fit into a slot
	// maxFragment is the largest number of bytes of payload for one slot. Longer messages
	// are sent in several fragments, so that the receiver copies one fragment while the
	// sender copies the next one.
	maxFragment = 16 << 10
)

// A slotFrame is a slot of a ring. It has one fragment of a message, with up to 96 bytes
// of payload. A longer payload is in the payload area of the ring. Word 0 is stored
// last. Its sequence is the number of slots filled so far. The receiver compares that
// number with the expected one, and so sees whether the slot is filled.
//
//	word 0  sequence (32) | operation (8) << 32 | flags (8) << 40
//	word 1  length (32) | immediate data (32) << 32
//	word 2  remote address                      only operations on remote memory
//	word 3  remote key (32) | total (32) << 32  only operations on remote memory
//
// The total is the number of bytes of the whole message.
type slotFrame struct {
	word [4]uint64
	data [inlineSize]byte
}

// A ControlBlock is written by one side of the connection and read by the other. An
// exception is Parked, which the reader clears.
type ControlBlock struct {
	// Ack acknowledges the requests of the other side: number of slots consumed (32) |
	// syndrome (8) << 32 | number of NAKs (24) << 40. The syndrome is that of the AETH
	// (IBTA vol. 1, 9.3.5). The syndrome of a NAK belongs to the first slot that was not
	// consumed.
	Ack atomic.Uint64
	// Resend counts the retries after an RNR NAK. A new value asks the other side to
	// process the slot again.
	Resend atomic.Uint32
	// Responses is the number of response slots that this side has consumed.
	Responses atomic.Uint32
	_         [48]byte

	// The following fields change rarely, and the other side reads them after each message,
	// so they have a cache line of their own.

	// Parked says which changes the other side has to announce by ringing the doorbell
	// of this side. It is a WakeLevel.
	Parked atomic.Uint32
	// State is an EndState.
	State atomic.Uint32
	_     [56]byte
}

// WakeLevel says which changes the peer has to announce by ringing the doorbell.
type WakeLevel = uint32

const (
	// The peer does not ring the doorbell, because this side polls its rings.
	WakeNone WakeLevel = iota
	// The peer rings the doorbell for a request and for a response.
	WakeSlots
	// The peer rings the doorbell for a request, a response and an acknowledgement.
	WakeAll
)

// EndState says whether a side processes requests.
type EndState = uint32

const (
	sideAbsent EndState = iota // The side does not process requests yet.
	SideActive                 // The side processes requests.
	// The side does not process requests any more: its queue pair is in the error state
	// or closed.
	SideSilent
)

// The flags of a slot that only the local path has.
const (
	// the payload is in the payload area of the ring
	FlagArea   = fragment.PathFlag << iota
	FlagAckReq // the sender asks for an acknowledgement without delay
)

// A Ring is the shared memory of a ring: the slots, and the area for long payloads.
type Ring struct {
	slots []slotFrame
	area  []byte
}

// Len returns the number of slots.
func (r *Ring) Len() int { return len(r.slots) }

// A Producer is the sending side of a ring. Its counters are private to this process.
// They wrap, and only differences between them are used.
type Producer struct {
	Ring
	tail uint32 // number of slots filled
	// number of slots that were filled and not published, so that the consumer can not
	// see them
	Unpublished uint32
	firstWord   uint64   // word 0 of the first unpublished slot
	Freed       uint32   // number of slots that the consumer has consumed
	areaTail    uint32   // number of bytes of the area that were allocated
	areaFreed   uint32   // number of bytes of the area that the consumer has consumed
	areaEnd     []uint32 // for each slot: value of areaTail after the slot was filled
}

// NewProducer returns the sending side of an empty ring.
func NewProducer(r Ring) Producer {
	return Producer{Ring: r, areaEnd: make([]uint32, len(r.slots))}
}

// Reserve returns the memory for the payload of the next fragment. Its length is at most
// the parameter want, and may be less. inArea is true if the memory is in the payload
// area. ok is false if the ring is full.
func (p *Producer) Reserve(want uint32) (dst []byte, inArea, ok bool) {
	if p.tail-p.Freed == uint32(len(p.slots)) {
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

// Put fills the slot of a fragment whose payload is in the memory that Reserve has
// returned. The consumer sees the slot after PublishFirst. The consumer reads the slots
// in order. So in a batch of slots only word 0 of the first slot has to be stored last
// and atomically.
func (p *Producer) Put(f *fragment.Fragment) {
	index := p.tail & uint32(len(p.slots)-1)
	s := &p.slots[index]
	if f.Flags&FlagArea != 0 {
		p.areaTail += alignArea(f.Length)
	}
	p.areaEnd[index] = p.areaTail
	s.word[1] = uint64(f.Length) | uint64(f.Imm)<<32
	if f.Op.Remote() {
		s.word[2] = f.Addr
		s.word[3] = uint64(f.Key) | uint64(f.Total)<<32
	}
	p.tail++
	word := uint64(p.tail) | uint64(f.Op)<<32 | uint64(f.Flags)<<40
	if p.Unpublished == 0 {
		p.firstWord = word
	} else {
		s.word[0] = word
	}
	p.Unpublished++
}

// PublishFirst makes all filled slots visible to the consumer.
func (p *Producer) PublishFirst() {
	if p.Unpublished > 0 {
		first := &p.slots[(p.tail-p.Unpublished)&uint32(len(p.slots)-1)]
		p.Unpublished = 0
		atomic.StoreUint64(&first.word[0], p.firstWord)
	}
}

// Publish calls Put and PublishFirst.
func (p *Producer) Publish(f *fragment.Fragment) {
	p.Put(f)
	p.PublishFirst()
}

// Free makes consumed slots free again. head is the number of slots that the consumer
// claims to have consumed. Free returns false if that number is impossible.
func (p *Producer) Free(head uint32) bool {
	if head-p.Freed > p.tail-p.Freed {
		return false
	}
	if head != p.Freed {
		p.Freed = head
		p.areaFreed = p.areaEnd[(head-1)&uint32(len(p.slots)-1)]
	}
	return true
}

// alignArea rounds up to a multiple of a cache line, so that no two fragments share one.
func alignArea(n uint32) uint32 { return (n + 63) &^ 63 }

// A Consumer is the receiving side of a ring. It checks everything that it reads.
type Consumer struct {
	Ring
	Head     uint32
	areaHead uint32
}

// Ready reports whether there is a slot to consume.
func (c *Consumer) Ready() bool {
	return uint32(atomic.LoadUint64(&c.slots[c.Head&uint32(len(c.slots)-1)].word[0])) == c.Head+1
}

// Peek copies the header of the next slot to r, whose payload then refers to the shared
// memory. more is false if there is no slot. ok is false if the header is not valid.
func (c *Consumer) Peek(r *fragment.Fragment) (more, ok bool) {
	s := &c.slots[c.Head&uint32(len(c.slots)-1)]
	w := atomic.LoadUint64(&s.word[0])
	if uint32(w) != c.Head+1 {
		return false, true
	}
	s.fetch()
	// Each word is loaded once, so that the value that is used is the value that was
	// checked.
	r.Op, r.Flags = fragment.Op(w>>32), fragment.Flags(w>>40)
	w = atomic.LoadUint64(&s.word[1])
	r.Length, r.Imm = uint32(w), uint32(w>>32)
	if r.Op.Remote() {
		r.Addr = atomic.LoadUint64(&s.word[2])
		w = atomic.LoadUint64(&s.word[3])
		r.Key, r.Total = uint32(w), uint32(w>>32)
	}
	if r.Flags&FlagArea == 0 {
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

// Advance consumes the slot that Peek has returned.
func (c *Consumer) Advance(f *fragment.Fragment) {
	c.Head++
	if f.Flags&FlagArea != 0 {
		c.areaHead += alignArea(f.Length)
	}
}
