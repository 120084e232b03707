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
	// SendFence makes the device wait with the request until the READs and atomics that
	// were posted before it have completed.
	SendFence SendFlags = 1 << 0
	// SendSignaled requests a completion on success. A failed request always has a
	// completion.
	SendSignaled SendFlags = 1 << 1
	// SendSolicited makes the receive completion of the peer raise an event of its CQ,
	// even if that CQ was armed with solicitedOnly.
	SendSolicited SendFlags = 1 << 2
	// SendInline takes the payload from SendWR.Inline instead of the memory that SGEs
	// name.
	SendInline SendFlags = 1 << 3
)

// A SendWR is a work request for the send queue. Source: ibv_post_send(3).
type SendWR struct {
	ID     uint64 // value of the caller, which the completion returns in WC.ID
	Opcode Opcode
	Flags  SendFlags

	// SGEs name the payload of SEND and WRITE in order. For READ they name the memory
	// that receives the data, and for atomics the 8 bytes that receive the old value; in
	// both cases the memory needs AccessLocalWrite. An empty list means a message of zero
	// bytes.
	SGEs []SGE
	// Inline is the payload if SendInline is set, which only SEND and WRITE may have. The
	// slice may be in any memory, and has at most QPCaps.MaxInline bytes. PostSend copies
	// it before it returns.
	Inline []byte

	Imm uint32 // immediate data, in host order, for OpSendImm and OpWriteImm

	RemoteAddr uint64 // address in the peer's region, for WRITE, READ and atomics; for atomics a multiple of 8
	RKey       uint32 // MR.RKey of the peer's region
	CompareAdd uint64 // for compare-and-swap the value to compare with, for fetch-and-add the value to add
	Swap       uint64 // new value of a compare-and-swap

	// Address, queue pair number and Q_Key of the destination. For UD only.
	AH         AH
	RemoteQPN  uint32
	RemoteQKey uint32
}

// A RecvWR is a work request for the receive queue. It posts a buffer for one message.
// Source: ibv_post_recv(3).
type RecvWR struct {
	ID uint64 // value of the caller, which the completion returns in WC.ID
	// SGEs name the memory of the buffer, which needs AccessLocalWrite. On UD the first
	// GRHSize bytes of the buffer are for the routing header. An empty list is a buffer
	// for messages of zero bytes and for immediate data.
	SGEs []SGE
}

// GRHSize is the number of bytes at the beginning of a UD receive buffer that hold the
// global routing header; the payload follows. If the datagram came over IPv4, the last 20
// of these bytes hold the IPv4 header, and the bytes before them have no meaning. Source:
// ibv_post_recv(3).
const GRHSize = 40
