package verbs

import "time"

// A QP is a queue pair. See CQAttr.Progress for who may call.
type QP interface {
	// Num is the queue pair number, 24 bits.
	Num() uint32
	// Type is RC or UD.
	Type() QPType
	// PD is the domain of the queue pair.
	PD() PD
	// State is the present state.
	State() QPState
	// Caps returns the sizes that were given, at least those asked for.
	Caps() QPCaps

	// Modify changes the attributes that mask names; AttrState moves the QP to
	// attr.State. CheckTransition has the rules. Moving to StateError flushes
	// both queues; moving to StateReset forgets what is on them, without
	// completions. It never blocks. Source: ibv_modify_qp(3).
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query returns the present attributes. Source: ibv_query_qp(3).
	Query() (QPAttr, error)

	// PostSend appends work requests to the send queue, with one doorbell for
	// all, and returns how many were accepted. With an error the request at
	// index n is the first that was not, and those behind it were not looked
	// at; ErrQueueFull means that there is room again after completions have
	// been polled. The slice and what it points to are the caller's again when
	// the call returns; the memory that SGEs name is the device's until the
	// completion, except with SendInline. Posting needs state RTS or SQD; in
	// StateError every request is accepted and flushed.
	// Source: ibv_post_send(3).
	PostSend(wrs []SendWR) (n int, err error)

	// PostRecv appends buffers to the receive queue; the contract is that of
	// PostSend. It is allowed from StateInit on, and never on a QP with an
	// SRQ. Source: ibv_post_recv(3).
	PostRecv(wrs []RecvWR) (n int, err error)

	// Close destroys the queue pair. Outstanding requests are dropped without
	// completions, and completions that were not polled yet may be dropped too. Source:
	// ibv_destroy_qp(3).
	Close() error
}

// QPType is the transport service of a queue pair.
type QPType uint8

// Queue pair types, numbered as enum ibv_qp_type.
const (
	QPTypeRC QPType = 2 // reliable connection
	QPTypeUD QPType = 4 // unreliable datagram
)

func (t QPType) String() string {
	switch t {
	case QPTypeRC:
		return "RC"
	case QPTypeUD:
		return "UD"
	}
	return unknown("QP type", uint64(t))
}

// QPCaps are the sizes of a queue pair. Source: ibv_create_qp(3).
type QPCaps struct {
	MaxSendWR  int // work requests outstanding on the send queue
	MaxRecvWR  int // buffers on the receive queue; 0 with an SRQ
	MaxSendSGE int // entries of one send request
	MaxRecvSGE int // entries of one receive request
	MaxInline  int // bytes of inline data
}

// QPInitAttr is what a queue pair is made with.
type QPInitAttr struct {
	Type   QPType
	SendCQ CQ
	RecvCQ CQ  // may be SendCQ
	SRQ    SRQ // nil: a receive queue of its own
	Caps   QPCaps
	// SignalAll makes every send request signaled (sq_sig_all).
	SignalAll bool
}

// QPState is a state of the queue pair state machine (IBTA vol. 1, 10.3.1).
type QPState uint8

// Queue pair states, numbered as enum ibv_qp_state.
const (
	StateReset QPState = iota
	StateInit          // receives may be posted
	StateRTR           // ready to receive
	StateRTS           // ready to send
	StateSQD           // send queue drained
	StateSQE           // send queue error, UD only
	StateError
)

func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("QP state", uint64(s))
}

// QPAttr holds the attributes of a queue pair. Source: ibv_modify_qp(3).
type QPAttr struct {
	State  QPState
	Access Access // what the peer may do; AccessLocalWrite is implied
	Port   uint8  // from 1
	QKey   uint32 // UD
	AH     AHAttr // RC: where the peer is

	PathMTU MTU
	DestQPN uint32 // RC: the peer's QP number
	RQPSN   uint32 // first PSN expected from the peer, 24 bits
	SQPSN   uint32 // first PSN sent, 24 bits

	MaxDestRdAtomic uint8 // READs and atomics served at a time (responder resources)
	MaxRdAtomic     uint8 // READs and atomics outstanding (initiator depth)

	MinRNRTimer uint8 // code told to a peer that finds no receive buffer: see RNRDelay
	Timeout     uint8 // code c of the local ACK timeout: 4.096 µs * 2^c; 0 means none
	RetryCount  uint8 // 0..7 retries without an answer
	RNRRetry    uint8 // 0..7 retries after "receiver not ready"; 7 means without end
}

// QPAttrMask names fields of QPAttr.
type QPAttrMask uint32

// Attribute masks, with the bits of enum ibv_qp_attr_mask.
const (
	AttrState           QPAttrMask = 1 << 0
	AttrAccess          QPAttrMask = 1 << 3
	AttrPort            QPAttrMask = 1 << 5
	AttrQKey            QPAttrMask = 1 << 6
	AttrAV              QPAttrMask = 1 << 7 // QPAttr.AH
	AttrPathMTU         QPAttrMask = 1 << 8
	AttrTimeout         QPAttrMask = 1 << 9
	AttrRetryCount      QPAttrMask = 1 << 10
	AttrRNRRetry        QPAttrMask = 1 << 11
	AttrRQPSN           QPAttrMask = 1 << 12
	AttrMaxRdAtomic     QPAttrMask = 1 << 13
	AttrMinRNRTimer     QPAttrMask = 1 << 15
	AttrSQPSN           QPAttrMask = 1 << 16
	AttrMaxDestRdAtomic QPAttrMask = 1 << 17
	AttrDestQPN         QPAttrMask = 1 << 20
)

// RNRRetryForever is the RNRRetry count that never runs out.
const RNRRetryForever = 7

// MaxRetry is the largest retry count: the fields have three bits.
const MaxRetry = 7

// rnrDelays are the RNR NAK timer codes in units of 10 µs (IBTA vol. 1, table
// 45). Code 0 is the longest.
var rnrDelays = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRDelay is how long a sender waits after an RNR NAK with this timer code;
// only the low five bits count. Code 0 is 655.36 ms, code 1 10 µs, code 12
// 0.64 ms, code 31 491.52 ms.
func RNRDelay(code uint8) time.Duration {
	return time.Duration(rnrDelays[code&31]) * 10 * time.Microsecond
}

// AckTimeout is the time that a local ACK timeout code stands for, 4.096 µs *
// 2^code; code 0 means no timeout and gives 0. Only the low five bits count.
func AckTimeout(code uint8) time.Duration {
	if code&31 == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << (code & 31)
}

// An SRQ is a receive queue shared by QPs of one domain. See CQAttr.Progress
// for who may call.
type SRQ interface {
	// PostRecv appends buffers; the contract is that of QP.PostRecv.
	// Source: ibv_post_srq_recv(3).
	PostRecv(wrs []RecvWR) (n int, err error)
	// Arm asks for one AsyncSRQLimit event when fewer than limit buffers are
	// left; 0 disarms. Source: ibv_modify_srq(3).
	Arm(limit int) error
	// Caps returns the sizes that were given.
	Caps() SRQCaps
	// Close destroys the queue, or returns ErrBusy while a QP uses it.
	Close() error
}

// SRQAttr is what a shared receive queue is made with.
type SRQAttr struct {
	MaxWR  int
	MaxSGE int
	// CQ names the queue the receives will complete on. A device that moves
	// its data while that is polled needs to know; others ignore it.
	CQ CQ
}

// SRQCaps are the sizes of a shared receive queue.
type SRQCaps struct {
	MaxWR  int
	MaxSGE int
}
