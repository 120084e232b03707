// Package fragment has the form in which a path, shared memory or packets, passes the
// peer's messages to the queue pair.
package fragment

// A Fragment is a message of a peer, or one piece of a long message.
type Fragment struct {
	Op     Op
	Flags  Flags
	Length uint32 // number of bytes of payload; set only by paths that count them
	Imm    uint32 // immediate data, in host byte order; valid with the flag Imm
	Addr   uint64 // remote address; used only by operations on remote memory
	Key    uint32 // remote key; used only by operations on remote memory
	// number of bytes of the whole READ or WRITE; used only by operations on remote
	// memory
	Total uint32
	// Payload is the data of a SEND or WRITE, or the operands of an atomic. It may be in
	// shared memory, which the peer can change at any time.
	Payload []byte
}

// First reports whether the fragment is the first one of its message.
func (f *Fragment) First() bool { return f.Flags&First != 0 }

// Last reports whether the fragment is the last one of its message.
func (f *Fragment) Last() bool { return f.Flags&Last != 0 }

// An Op is the operation of a message. The numbers and their order are part of the
// layout of shared memory.
type Op uint8

const (
	Send         Op = iota + 1 // message for a receive buffer
	Write                      // RDMA WRITE
	Read                       // RDMA READ
	CompareSwap                // atomic compare and swap
	FetchAdd                   // atomic fetch and add
	ReadData                   // response to a Read
	AtomicResult               // response to a CompareSwap or FetchAdd
)

// Remote reports whether the operation is a request that names remote memory.
func (op Op) Remote() bool { return op >= Write && op <= FetchAdd }

// Flags describe a fragment. The numbers are part of the layout of shared memory.
type Flags uint8

const (
	First     Flags = 1 << iota // first fragment of a message
	Last                        // last fragment of a message
	Imm                         // the message has immediate data
	Solicited                   // the sender asks for a solicited event
	// PathFlag is the first of the flags that each path may use for itself.
	PathFlag
)
