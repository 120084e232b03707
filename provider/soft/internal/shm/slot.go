package shm

import "github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"

const (
	SlotSize    = 128            // size of a slot in bytes: two cache lines
	SlotPayload = SlotSize - 4*8 // largest payload in a slot, in bytes
	// maxFragment is the largest payload of a fragment in bytes. The receiver copies one
	// fragment of a long message while the sender fills the next one. Arbitrary.
	maxFragment = 16 << 10
)

// A Dest says to which queue pair a slot belongs. It has a queue pair number (24 bits)
// and an attempt number (8 bits). The receiver ignores requests with an old attempt
// number.
//
// A new attempt begins after an RNR NAK: the sender sends the refused request and all
// later ones with the next attempt number. A new attempt also begins with each new
// connection of a queue pair.
type Dest uint32

// NewDest returns the Dest of the queue pair qpn. See Dest for the parameter attempt.
func NewDest(qpn uint32, attempt uint8) Dest { return Dest(qpn&0xffffff | uint32(attempt)<<24) }

// QPN returns the queue pair number of a Dest.
func (d Dest) QPN() uint32 { return uint32(d & 0xffffff) }

// Attempt returns the attempt number of a Dest.
func (d Dest) Attempt() uint8 { return uint8(d >> 24) }

// Next returns the same Dest with the next attempt number. After 255 comes 0.
func (d Dest) Next() Dest { return d + 1<<24 }

// A Slot is the contents of a slot: a fragment of a request or of a response, or a
// message between the two shards.
type Slot struct {
	fragment.Fragment
	Dest Dest
}

// Operations of slots that only the local path uses. These slots have no payload.
const (
	// Ready says that the sender's queue pair now executes requests with the Dest
	// Slot.Imm. If the receiver's queue pair is ready, the receiver answers with
	// ReadyToo.
	Ready fragment.Op = 0x80 + iota
	// ReadyToo is the answer to Ready. The queue pair that sends ReadyToo executes requests
	// with the Dest Slot.Imm. Slot.Addr is the attempt number of the Ready slot, so the
	// receiver can ignore answers for an earlier connection.
	ReadyToo
	// Refused says that a request was not executed. Slot.Imm is the position of the
	// request's slot, and Slot.Addr is the NAK. After an RNR NAK, later requests with the
	// same attempt number are not executed either.
	Refused
	// Stopped says that requests are not executed if the position of their slot is Slot.Imm
	// or later.
	Stopped
	// Granted says what the receiver's queue pair may do with regions of the sender. Slot.Imm
	// is the protection domain of the sender's queue pair, and Slot.Addr the access rights.
	Granted
	// Shared answers a Share slot. Slot.Imm is the key of the region. If Slot.Addr is 1,
	// the descriptor of the region's memory was sent through the doorbell before this
	// slot.
	Shared
	// Share asks for the memory of the region with the key Slot.Imm.
	Share
)

// hasAddr reports whether slots of the operation op use the words 2 and 3.
func hasAddr(op fragment.Op) bool { return op.Remote() || op >= Ready }

// Flags of a slot that only the local path uses.
const (
	// FlagArea means that the payload is in the payload area of the ring.
	FlagArea   = fragment.PathFlag << iota
	FlagAckReq // the sender asks for an acknowledgement of the slot at once
)
