package verbs

// Opcode is the operation of a send work request.
type Opcode uint8

// Operations, numbered as enum ibv_wr_opcode.
const (
	OpWrite       Opcode = 0 // RDMA WRITE
	OpWriteImm    Opcode = 1 // RDMA WRITE that also consumes a receive buffer of the peer
	OpSend        Opcode = 2 // message that consumes a receive buffer of the peer
	OpSendImm     Opcode = 3 // SEND with immediate data
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

// Atomic reports whether the operation is compare-and-swap or fetch-and-add.
func (o Opcode) Atomic() bool { return o == OpCompareSwap || o == OpFetchAdd }

// SendFlags is a set of options of a send work request.
type SendFlags uint8

// Options of a send work request, with the bits of enum ibv_send_flags.
const (
	// SendFence delays the request until the READs and atomics that were posted before
	// it have completed.
	SendFence SendFlags = 1 << 0
	// SendSignaled requests a completion on success. A failed request always has a
	// completion.
	SendSignaled SendFlags = 1 << 1
	// SendSolicited makes the peer's receive completion raise an event of a CQ that was
	// armed with solicitedOnly.
	SendSolicited SendFlags = 1 << 2
	// SendInline takes the payload from SendWR.Inline, not from SGEs.
	SendInline SendFlags = 1 << 3
)

// A SendWR is a work request for the send queue. Source: ibv_post_send(3).
type SendWR struct {
	ID     uint64 // returned in WC.ID
	Opcode Opcode
	Flags  SendFlags

	// SGEs name the payload of SEND and WRITE in order. For READ they name the memory
	// for the data, and for atomics the 8 bytes for the old value; that memory needs
	// AccessLocalWrite. An empty list means a message of zero bytes.
	SGEs []SGE
	// Inline is the payload if SendInline is set, for SEND and WRITE only. It may be any
	// memory, at most QPCaps.MaxInline bytes. PostSend copies it before it returns.
	Inline []byte

	Imm uint32 // immediate data, in host order, for OpSendImm and OpWriteImm

	RemoteAddr uint64 // for WRITE, READ and atomics; a multiple of 8 for atomics
	RKey       uint32 // MR.RKey of the peer's region
	CompareAdd uint64 // value to compare with, or value to add
	Swap       uint64 // new value of a compare-and-swap

	// The destination, for UD only.
	AH         AH
	RemoteQPN  uint32
	RemoteQKey uint32
}

// A RecvWR is a buffer for the receive queue. Source: ibv_post_recv(3).
type RecvWR struct {
	ID uint64 // returned in WC.ID
	// SGEs name the buffer, which needs AccessLocalWrite. On UD the first GRHSize bytes
	// of it are for the routing header. An empty list is a buffer for messages of zero
	// bytes and for immediate data.
	SGEs []SGE
}

// GRHSize is the number of bytes in a UD receive buffer, before the payload, that are
// for the global routing header. Over IPv4 the last 20 of them hold the IPv4 header.
// Source: ibv_post_recv(3).
const GRHSize = 40
