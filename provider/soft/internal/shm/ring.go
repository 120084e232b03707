//go:build linux

package shm

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

// A slotFrame is a slot of a ring. A payload of up to 96 bytes is in the slot itself,
// and a longer one is in the payload area.
//
//	word 0  sequence (16) | operation (8) << 16 | flags (8) << 24 | Dest << 32
//	word 1  length (32) | immediate data (32) << 32
//	word 2  remote address, NAK or attempt      see hasAddr
//	word 3  remote key (32) | total (32) << 32  see hasAddr
//
// The sequence is the position after this slot, modulo 2^16. The sender stores word 0
// last, so the sequence shows the receiver that the slot is filled. The total is the
// length of the whole message.
type slotFrame struct {
	word [4]uint64
	data [SlotPayload]byte
}

// A Ring is the memory of one ring: the slots and the payload area.
type Ring struct {
	slots []slotFrame
	area  []byte
}

// Len returns the number of slots.
func (r *Ring) Len() int { return len(r.slots) }

// A Producer is the sending side of a ring. Its fields are not in shared memory. All
// counts wrap around.
type Producer struct {
	Ring
	Tail uint32 // number of slots filled since the beginning
	// Number of filled slots that the consumer can not see yet.
	Unpublished uint32
	firstWord   uint64 // word 0 of the first unpublished slot
	// number of slots that the consumer has consumed since the beginning
	Freed uint32
	// number of bytes of the payload area allocated since the beginning
	areaTail  uint32
	areaFreed uint32   // number of bytes of the payload area that the consumer has consumed
	areaEnd   []uint32 // for each slot, the value of areaTail after the slot was filled
	owned     ownedArea
}

// NewProducer returns the sending side of an empty ring.
func NewProducer(r Ring) Producer {
	return Producer{Ring: r, areaEnd: make([]uint32, len(r.slots))}
}

// Reserve returns memory for the payload of the next fragment. The parameter want is the
// length in bytes, but dst may be shorter. If inArea is true, dst is in the payload
// area, and otherwise in the slot. If ok is false, there is no room.
func (p *Producer) Reserve(want uint32) (dst []byte, inArea, ok bool) {
	if p.Tail-p.Freed == uint32(len(p.slots)) {
		return nil, false, false
	}
	if want <= SlotPayload {
		return p.slots[p.Tail&uint32(len(p.slots)-1)].data[:want], false, true
	}
	size := uint32(len(p.area))
	at := p.areaTail & (size - 1)
	room := min(want, maxFragment, size-at, size-(p.areaTail-p.areaFreed))
	if room == 0 {
		return nil, false, false
	}
	return p.area[at : at+room], true, true
}

// Put fills the next slot with a fragment whose payload is already in the memory from
// Reserve. PublishFirst publishes the slot.
func (p *Producer) Put(f *Slot) {
	index := p.Tail & uint32(len(p.slots)-1)
	s := &p.slots[index]
	if f.Flags&FlagArea != 0 {
		n := alignArea(f.Length)
		p.areaTail += n
		p.owned.sent(n)
	}
	p.areaEnd[index] = p.areaTail
	s.word[1] = uint64(f.Length) | uint64(f.Imm)<<32
	if hasAddr(f.Op) {
		s.word[2] = f.Addr
		s.word[3] = uint64(f.Key) | uint64(f.Total)<<32
	}
	p.addSlot(s, f.Op, f.Flags, f.Dest)
}

// PutSend fills the next slot with a SEND of one fragment. It returns false if data is
// too long or the ring is full. PublishFirst publishes the slot.
func (p *Producer) PutSend(to Dest, data []byte, flags fragment.Flags) bool {
	if len(data) > SlotPayload || p.Tail-p.Freed == uint32(len(p.slots)) {
		return false
	}
	index := p.Tail & uint32(len(p.slots)-1)
	s := &p.slots[index]
	copy(s.data[:], data)
	p.areaEnd[index] = p.areaTail
	s.word[1] = uint64(len(data))
	p.addSlot(s, fragment.Send, flags|fragment.First|fragment.Last, to)
	return true
}

// addSlot counts s as filled and stores word 0 of s. The first unpublished slot is an
// exception: PublishFirst stores its word 0.
func (p *Producer) addSlot(s *slotFrame, op fragment.Op, flags fragment.Flags, to Dest) {
	p.Tail++
	word := uint64(uint16(p.Tail)) | uint64(op)<<16 | uint64(flags)<<24 | uint64(to)<<32
	if p.Unpublished == 0 {
		p.firstWord = word
	} else {
		s.word[0] = word
	}
	p.Unpublished++
}

// PublishFirst shows the consumer all unpublished slots at once. The consumer sees them
// when word 0 of the first of them is stored.
func (p *Producer) PublishFirst() {
	if p.Unpublished > 0 {
		first := &p.slots[(p.Tail-p.Unpublished)&uint32(len(p.slots)-1)]
		p.Unpublished = 0
		atomic.StoreUint64(&first.word[0], p.firstWord)
	}
}

// Free makes the slots usable that the consumer has consumed. The parameter head is the
// number of slots consumed since the beginning. This number comes from the peer. Free
// returns false if the number is not possible.
func (p *Producer) Free(head uint32) bool {
	if head-p.Freed > p.Tail-p.Freed {
		return false
	}
	if head != p.Freed {
		p.Freed = head
		p.areaFreed = p.areaEnd[(head-1)&uint32(len(p.slots)-1)]
	}
	return true
}

// areaAlign is the alignment of a payload in the payload area, in bytes: a cache line.
const areaAlign = 64

// alignArea rounds a length up to areaAlign, so that payloads share no cache line.
func alignArea(n uint32) uint32 { return (n + areaAlign - 1) &^ (areaAlign - 1) }

// A Consumer is the receiving side of a ring. It checks all values from the ring.
type Consumer struct {
	Ring
	Head     uint32
	areaHead uint32
}

// Ready reports whether the next slot is filled.
func (c *Consumer) Ready() bool {
	return uint16(atomic.LoadUint64(&c.slots[c.Head&uint32(len(c.slots)-1)].word[0])) == uint16(c.Head+1)
}

// Peek copies the header of the next slot to f. The slice f.Payload is in the shared
// memory. If filled is false, there is no next slot yet. If ok is false, the header is
// invalid.
func (c *Consumer) Peek(f *Slot) (filled, ok bool) {
	s := &c.slots[c.Head&uint32(len(c.slots)-1)]
	w := atomic.LoadUint64(&s.word[0])
	if uint16(w) != uint16(c.Head+1) {
		return false, true
	}
	s.fetch()
	// Each word is loaded only once, because the peer could change it after a check.
	f.Op, f.Flags, f.Dest = fragment.Op(w>>16), fragment.Flags(w>>24), Dest(w>>32)
	w = atomic.LoadUint64(&s.word[1])
	f.Length, f.Imm = uint32(w), uint32(w>>32)
	if hasAddr(f.Op) {
		f.Addr = atomic.LoadUint64(&s.word[2])
		w = atomic.LoadUint64(&s.word[3])
		f.Key, f.Total = uint32(w), uint32(w>>32)
	}
	if f.Flags&FlagArea == 0 {
		if f.Length > SlotPayload {
			return true, false
		}
		f.Payload = s.data[:f.Length]
		return true, true
	}
	size := uint32(len(c.area))
	at := c.areaHead & (size - 1)
	if f.Length > size-at {
		return true, false
	}
	f.Payload = c.area[at : at+f.Length]
	return true, true
}

// PeekSend is a faster Peek for a SEND of one fragment, without immediate data, whose
// payload is in the slot. For other slots ok is false. The payload is in the shared
// memory.
func (c *Consumer) PeekSend() (payload []byte, to Dest, flags fragment.Flags, ok bool) {
	s := &c.slots[c.Head&uint32(len(c.slots)-1)]
	w := atomic.LoadUint64(&s.word[0])
	if uint16(w) != uint16(c.Head+1) {
		return nil, 0, 0, false
	}
	s.fetch()
	flags = fragment.Flags(w >> 24)
	length := uint32(atomic.LoadUint64(&s.word[1]))
	if fragment.Op(w>>16) != fragment.Send || flags&^(FlagAckReq|fragment.Solicited) != fragment.First|fragment.Last || length > SlotPayload {
		return nil, 0, 0, false
	}
	return s.data[:length], Dest(w >> 32), flags, true
}

// AdvanceSend consumes the slot whose payload PeekSend has returned.
func (c *Consumer) AdvanceSend() { c.Head++ }

// Advance consumes the slot whose header Peek has copied to f.
func (c *Consumer) Advance(f *Slot) {
	c.Head++
	if f.Flags&FlagArea != 0 {
		c.areaHead += alignArea(f.Length)
	}
}
