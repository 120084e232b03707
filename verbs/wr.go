package verbs

// Opcode is the operation of a send work request.
type Opcode uint8

// Operations, numbered as in enum ibv_wr_opcode.
const (
	OpWrite       Opcode = 0 // RDMA WRITE
	OpWriteImm    Opcode = 1 // RDMA WRITE with immediate data; uses one receive buffer of the peer
	OpSend        Opcode = 2 // SEND: the message goes into a receive buffer of the peer
	OpSendImm     Opcode = 3 // SEND with immediate data
	OpRead        Opcode = 4 // RDMA READ
	OpCompareSwap Opcode = 5 // atomic compare-and-swap of 64 bits
	OpFetchAdd    Opcode = 6 // atomic fetch-and-add of 64 bits
	OpLocalInv    Opcode = 7 // local invalidation of a memory window; no packet is sent
	OpBindMW      Opcode = 8 // bind of a memory window; no packet is sent
	OpSendInv     Opcode = 9 // SEND that also invalidates a memory window of the peer
)

func (o Opcode) String() string {
	names := [...]string{"WRITE", "WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD",
		"LOCAL_INV", "BIND_MW", "SEND_WITH_INV"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("opcode", uint64(o))
}

// Atomic reports whether the operation is compare-and-swap or fetch-and-add.
func (o Opcode) Atomic() bool { return o == OpCompareSwap || o == OpFetchAdd }

// Local reports whether the operation is a bind or a local invalidation of a memory
// window. The device executes such a request without the peer.
func (o Opcode) Local() bool { return o == OpLocalInv || o == OpBindMW }

// SendFlags is a set of options of a send work request.
type SendFlags uint8

// Options of a send work request, with the bits of enum ibv_send_flags.
const (
	// SendFence delays the request until all earlier READs and atomics of the queue have
	// completed.
	SendFence SendFlags = 1 << 0
	// SendSignaled requests a completion for a request that succeeds. A request that fails
	// always has a completion.
	SendSignaled SendFlags = 1 << 1
	// SendSolicited marks the message as solicited. If the peer's CQ was armed with
	// solicitedOnly, only solicited messages and failures cause an event.
	SendSolicited SendFlags = 1 << 2
	// SendInline sends the bytes in SendWR.Inline instead of the memory in SendWR.SGEs.
	SendInline SendFlags = 1 << 3
)

// A SendWR is a work request for the send queue. Source: ibv_post_send(3).
type SendWR struct {
	ID     uint64 // number of the caller's choice; the completion has it in WC.ID
	Opcode Opcode // the zero value is OpWrite
	Flags  SendFlags
	// Imm is the immediate data of OpSendImm and OpWriteImm, in host byte order.
	Imm uint32

	// SGEs lists pieces of local memory. A SEND or WRITE sends the contents of the memory.
	// A READ or atomic stores its result in the memory, which needs AccessLocalWrite. The
	// result of an atomic is the old value, which has 8 bytes. An empty list means zero
	// bytes.
	SGEs []SGE
	// Inline is the payload of a SEND or WRITE with the flag SendInline. The payload has at
	// most QPCaps.MaxInline bytes, and can be in any memory. PostSend copies the payload
	// before it returns.
	Inline []byte

	// RemoteAddr is the virtual address in the peer's memory, for WRITE, READ and atomics.
	// For atomics it must be a multiple of 8.
	RemoteAddr uint64
	// RKey is the key of the peer's memory region or memory window, for WRITE, READ and
	// atomics. For OpSendInv and OpLocalInv, RKey is the key to invalidate. For OpBindMW,
	// RKey is the new key of the memory window.
	RKey uint32
	// CompareAdd is the number that a compare-and-swap compares with, or that a
	// fetch-and-add adds. It is in host byte order, and so are Swap and the result.
	CompareAdd uint64
	Swap       uint64 // new value that a compare-and-swap stores

	Bind *MWBind // parameters of the bind, only for OpBindMW; see CheckLocal

	// For UD only: address, queue pair number and Q_Key of the destination.
	AH         AH
	RemoteQPN  uint32
	RemoteQKey uint32
}

// CheckLocal checks the arguments of a request with OpBindMW or OpLocalInv. Providers
// call CheckLocal when the request is posted. The error is a *ParamError. The errors that
// the comment of MW describes are found later, when the device executes the request.
func (wr *SendWR) CheckLocal() error {
	const noData = "a bind or local invalidation has no data"
	switch {
	case len(wr.SGEs) > 0:
		return &ParamError{Field: "send SGEs", Value: int64(len(wr.SGEs)), Reason: noData}
	case len(wr.Inline) > 0 || wr.Flags&SendInline != 0:
		return &ParamError{Field: "inline bytes", Value: int64(len(wr.Inline)), Reason: noData}
	case wr.Opcode == OpBindMW:
		return wr.Bind.check(wr.RKey)
	}
	return nil
}

// A RecvWR is a work request for the receive queue. Each RecvWR has one buffer, for one
// message. Source: ibv_post_recv(3).
type RecvWR struct {
	ID uint64 // number of the caller's choice; the completion has it in WC.ID
	// SGEs lists the pieces of memory that form the buffer. The memory needs
	// AccessLocalWrite. On UD, the first GRHSize bytes of the buffer are for the routing
	// header. An empty buffer can only receive messages of zero bytes and immediate data.
	SGEs []SGE
}

// GRHSize is the size in bytes of the global routing header at the beginning of a UD
// receive buffer. Over IPv4, only the last 20 of these bytes are valid, and hold the IPv4
// header. Source: ibv_post_recv(3).
const GRHSize = 40
