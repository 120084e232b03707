package verbs

// Opcode is the operation of a send work request.
type Opcode uint8

// Operations, numbered as enum ibv_wr_opcode.
const (
	OpWrite       Opcode = 0 // RDMA WRITE
	OpWriteImm    Opcode = 1 // RDMA WRITE that also consumes a receive buffer
	OpSend        Opcode = 2
	OpSendImm     Opcode = 3
	OpRead        Opcode = 4 // RDMA READ
	OpCompareSwap Opcode = 5 // atomic compare-and-swap of 64 bits
	OpFetchAdd    Opcode = 6 // atomic fetch-and-add of 64 bits
)

func (o Opcode) String() string {
	names := [...]string{"WRITE", "WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("opcode", uint64(o))
}

// Atomic reports whether the operation is one of the two atomics.
func (o Opcode) Atomic() bool { return o == OpCompareSwap || o == OpFetchAdd }

// SendFlags modify a send work request.
type SendFlags uint8

// Flags, with the bits of enum ibv_send_flags.
const (
	// SendFence starts the request only when the READs and atomics before it
	// have completed.
	SendFence SendFlags = 1 << 0
	// SendSignaled asks for a completion on success. A failure always has one.
	SendSignaled SendFlags = 1 << 1
	// SendSolicited makes the receive completion count for a CQ armed for
	// solicited ones only.
	SendSolicited SendFlags = 1 << 2
	// SendInline takes the payload from SendWR.Inline, not from SGEs.
	SendInline SendFlags = 1 << 3
)

// A SendWR is a work request for the send queue. Source: ibv_post_send(3).
type SendWR struct {
	ID     uint64 // comes back in WC.ID
	Opcode Opcode
	Flags  SendFlags

	// SGEs name the payload of SEND and WRITE in order, and the place for the
	// result of READ (local write needed) and of the atomics (8 bytes). There
	// may be none: a message of zero bytes.
	SGEs []SGE
	// Inline is the payload when SendInline is set: any memory, copied before
	// the call returns; at most QPCaps.MaxInline bytes. SEND and WRITE only.
	Inline []byte

	Imm uint32 // immediate data, in host order, for the operations that have it

	RemoteAddr uint64 // WRITE, READ, atomics; the latter 8-byte aligned
	RKey       uint32
	CompareAdd uint64 // compare value, or the addend
	Swap       uint64 // new value of a compare-and-swap

	// UD only.
	AH         AH
	RemoteQPN  uint32
	RemoteQKey uint32
}

// A RecvWR is a buffer for the receive queue. Source: ibv_post_recv(3).
type RecvWR struct {
	ID uint64 // comes back in WC.ID
	// SGEs name the buffer, local write needed. On UD the first 40 bytes are
	// taken by the routing header. An empty list takes messages of zero bytes
	// and immediate data.
	SGEs []SGE
}

// GRHSize is how many bytes in front of the payload a UD receive buffer has for
// the routing header. Over IPv4 the last 20 of them hold the IPv4 header.
const GRHSize = 40
