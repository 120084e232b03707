// Package fragment describes the pieces of messages that a queue pair receives. Shared
// memory and UDP use the same type.
package fragment

// A Fragment is a whole message of the peer, or one piece of a long message.
type Fragment struct {
	Op     Op
	Flags  Flags
	Length uint32 // length of Payload in bytes on the local path; unused on the wire path
	// Immediate data in host byte order, if the flag Imm is set. In the last fragment of a
	// SendInv, it is the key to be invalidated.
	Imm  uint32
	Addr uint64 // remote address, if Op.Remote returns true
	Key  uint32 // remote key, if Op.Remote returns true
	// Number of bytes of the whole READ or WRITE, if Op.Remote returns true.
	Total uint32
	// Payload is the data of a SEND or WRITE, or the operands of an atomic. The peer can
	// change it while it is in shared memory.
	Payload []byte
	// Time is the verbs.WC.Time of the message if this is its last fragment. On the local
	// path it is 0.
	Time int64
}

// AtomicOperands is the payload size of an atomic in bytes. The payload is the swap or
// add operand and then the compare operand, both big-endian.
const AtomicOperands = 16

// First reports whether the fragment is the first one of its message.
func (f *Fragment) First() bool { return f.Flags&First != 0 }

// Last reports whether the fragment is the last one of its message.
func (f *Fragment) Last() bool { return f.Flags&Last != 0 }

// An Op is the operation of a message. The numbers are part of the shared memory layout.
type Op uint8

const (
	Send         Op = iota + 1 // SEND, which needs a receive buffer
	Write                      // RDMA WRITE
	Read                       // RDMA READ
	CompareSwap                // atomic compare and swap
	FetchAdd                   // atomic fetch and add
	ReadData                   // response to a READ
	AtomicResult               // response to an atomic operation
	SendInv                    // SEND that invalidates a memory window of the receiver
)

// Remote reports whether the operation is a request that names remote memory.
func (op Op) Remote() bool { return op >= Write && op <= FetchAdd }

// Flags has properties of a fragment, one bit each. The bits are part of the shared
// memory layout.
type Flags uint8

const (
	First     Flags = 1 << iota // first fragment of a message
	Last                        // last fragment of a message
	Imm                         // the message has immediate data
	Solicited                   // the sender asks for a solicited event at the receiver
	// PathFlag is the lowest flag whose meaning depends on the path.
	PathFlag
)
