package verbs

import "time"

// A QP is a queue pair. Which goroutines may call its methods depends on the Progress of
// its CQs; see CQAttr.Progress.
type QP interface {
	// Num returns the queue pair number, 24 bits.
	Num() uint32
	// Type returns the transport service: RC or UD.
	Type() QPType
	// PD returns the domain of the queue pair.
	PD() PD
	// State returns the current state.
	State() QPState
	// Caps returns the actual sizes of the queues. They may be larger than requested.
	Caps() QPCaps

	// Modify changes the attributes whose bits are set in the mask. With AttrState, it
	// moves the QP to attr.State. In StateError all posted work requests are flushed. In
	// StateReset they are dropped and get no completions. Modify never blocks and does
	// not keep attr.
	//
	// After an error the QP is unchanged. For wrong arguments Modify returns the errors
	// of CheckTransition. Source: ibv_modify_qp(3).
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query returns the current attributes. Source: ibv_query_qp(3).
	Query() (QPAttr, error)

	// PostSend appends work requests to the send queue, and notifies the device once.
	// The QP must be in StateRTS or StateSQD. In StateError the requests are accepted
	// and flushed. Source: ibv_post_send(3).
	//
	// The result n is the number of accepted requests. After an error, wrs[n] is the
	// request that was refused. The requests after it were not looked at. The errors
	// are:
	//
	//   - ErrQueueFull: there is room again after completions were polled.
	//   - ErrState: the state of the QP does not allow the call.
	//   - *ParamError, *FeatureError: the request can not be executed.
	//
	// After the call, the slices, SGE lists and inline data belong to the caller again.
	// Memory named by SGEs belongs to the device until the completion.
	PostSend(wrs []SendWR) (n int, err error)

	// PostRecv appends work requests to the receive queue. Each request has one buffer.
	// The QP must be in StateInit or a later state. The results, the errors and the
	// ownership are the same as for PostSend. Source: ibv_post_recv(3).
	//
	// A QP with an SRQ has no receive queue of its own, and the error is a
	// *FeatureError. If QPCaps.MaxRecvWR of a QP without an SRQ is 0, the error is a
	// *ParamError.
	PostRecv(wrs []RecvWR) (n int, err error)

	// Close destroys the queue pair. Outstanding requests are dropped and get no
	// completions. Completions that were not polled yet may be dropped too. Source:
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

// QPCaps has the sizes of a queue pair. If MaxSendWR, MaxSendSGE or MaxRecvSGE is 0,
// CreateQP uses 1. QP.Caps returns the actual sizes. Source: ibv_create_qp(3).
//
// A queue pair without an SRQ can not receive messages if its MaxRecvWR is 0. The
// provider rdmacore uses 1 instead of 0.
type QPCaps struct {
	MaxSendWR  int // number of work requests outstanding on the send queue
	MaxRecvWR  int // number of work requests outstanding on the receive queue; 0 with an SRQ
	MaxSendSGE int // number of scatter/gather entries of one send request
	MaxRecvSGE int // number of scatter/gather entries of one receive request
	MaxInline  int // bytes of inline data in one send request
}

// QPInitAttr has the parameters of PD.CreateQP.
type QPInitAttr struct {
	Type   QPType
	SendCQ CQ
	RecvCQ CQ  // completion queue for receives; may be the same as SendCQ
	SRQ    SRQ // shared receive queue; nil means that the QP has its own receive queue
	Caps   QPCaps
	// SignalAll gives every send request a completion, as if the request had
	// SendSignaled. Source: sq_sig_all in ibv_create_qp(3).
	SignalAll bool
}

// QPState is a state of the queue pair state machine (IBTA vol. 1, 10.3.1).
type QPState uint8

// Queue pair states, numbered as enum ibv_qp_state.
const (
	StateReset QPState = iota // new or reset; nothing can be posted
	StateInit                 // receive buffers may be posted
	StateRTR                  // ready to receive
	StateRTS                  // ready to send
	StateSQD                  // send queue drained: new send requests wait until RTS
	StateSQE                  // send queue error, UD only: a send request has failed
	StateError                // posted requests are flushed
)

func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("QP state", uint64(s))
}

// QPAttr has the attributes of a queue pair. Source: ibv_modify_qp(3).
type QPAttr struct {
	State  QPState
	Access Access // what the peer may do; AccessLocalWrite has no effect
	Port   uint8  // number of the device port, from 1
	QKey   uint32 // for UD: key that arriving datagrams must carry
	AH     AHAttr // for RC: address of the peer

	PathMTU MTU    // MTU of the network path to the peer
	DestQPN uint32 // for RC: QP number of the peer
	RQPSN   uint32 // sequence number of the first packet from the peer, 24 bits
	SQPSN   uint32 // sequence number of the first packet to the peer, 24 bits

	MaxDestRdAtomic uint8 // number of READs and atomics of the peer that are served at a time (responder resources)
	MaxRdAtomic     uint8 // number of own READs and atomics outstanding at a time (initiator depth)

	MinRNRTimer uint8 // code, 0..31, of how long the peer waits after an RNR NAK; see RNRDelay
	Timeout     uint8 // code of the local ACK timeout, 0..31; see AckTimeout
	RetryCount  uint8 // retries of a request that was not acknowledged, 0..7
	RNRRetry    uint8 // retries of a request after an RNR NAK, 0..7; 7 means no limit
}

// QPAttrMask is a set of fields of QPAttr. Each field has one bit.
type QPAttrMask uint32

// Bits that name fields of a QPAttr, with the values of enum ibv_qp_attr_mask.
const (
	AttrState           QPAttrMask = 1 << 0
	AttrAccess          QPAttrMask = 1 << 3
	AttrPort            QPAttrMask = 1 << 5
	AttrQKey            QPAttrMask = 1 << 6
	AttrAV              QPAttrMask = 1 << 7 // the field AH, an address vector
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

// RNRRetryForever is a value of QPAttr.RNRRetry: retry without a limit.
const RNRRetryForever = 7

// MaxRetry is the largest retry count, which has three bits.
const MaxRetry = 7

// MaxQPNum is the largest queue pair number, and MaxPSN the largest packet sequence
// number. Both have 24 bits.
const (
	MaxQPNum = 1<<24 - 1
	MaxPSN   = 1<<24 - 1
)

// MaxTimerCode is the largest code of a local ACK timeout and of an RNR NAK timer. The
// codes have five bits.
const MaxTimerCode = 31

// AckTimeoutUnit is the unit of the local ACK timeout. The code n means this unit times
// 2^n (IBTA vol. 1, 9.7.6.1.3).
const AckTimeoutUnit = 4096 * time.Nanosecond

// rnrDelays has the delays of all RNR NAK timer codes, in units of 10 µs (IBTA vol. 1,
// table 45).
var rnrDelays = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRDelay returns how long a sender waits after an RNR NAK with this timer code. Code 0
// means 655.36 ms. Codes 1 to 31 mean 10 µs to 491.52 ms. Only the low five bits count.
func RNRDelay(code uint8) time.Duration {
	return time.Duration(rnrDelays[code&MaxTimerCode]) * 10 * time.Microsecond
}

// RNRDelayCode returns the RNR NAK timer code for a delay of d, rounded up to the next
// delay that has a code. If d is above 655.36 ms, ok is false.
func RNRDelayCode(d time.Duration) (code uint8, ok bool) {
	for code = 1; code <= MaxTimerCode; code++ {
		if RNRDelay(code) >= d {
			return code, true
		}
	}
	return 0, d <= RNRDelay(0)
}

// AckTimeout returns the local ACK timeout with this code: 4.096 µs * 2^code. Code 0
// means no timeout, and AckTimeout returns 0. Only the low five bits of the code count.
func AckTimeout(code uint8) time.Duration {
	if code &= MaxTimerCode; code == 0 {
		return 0
	}
	return AckTimeoutUnit << code
}

// AckTimeoutCode returns the code, from 1 to 31, of a local ACK timeout of d. The
// timeout is rounded up to the next one that has a code. If d is above 8796 s, ok is
// false.
func AckTimeoutCode(d time.Duration) (code uint8, ok bool) {
	for code = 1; code <= MaxTimerCode; code++ {
		if AckTimeout(code) >= d {
			return code, true
		}
	}
	return 0, false
}

// An SRQ is a shared receive queue: several QPs of one domain take their receive buffers
// from it. Which goroutines may call its methods depends on the Progress of the QPs'
// CQs; see CQAttr.Progress.
type SRQ interface {
	// PostRecv appends work requests. Each request has one buffer. Results, errors and
	// ownership are the same as for QP.PostRecv. Source: ibv_post_srq_recv(3).
	PostRecv(wrs []RecvWR) (n int, err error)
	// Arm requests one AsyncSRQLimit event. The event comes when the queue has fewer
	// buffers than the limit. A limit of 0 cancels the request. Source:
	// ibv_modify_srq(3).
	Arm(limit int) error
	// Caps returns the actual sizes of the queue. They may be larger than requested.
	Caps() SRQCaps
	// Close destroys the queue. It returns ErrBusy while a QP uses the queue. Source:
	// ibv_destroy_srq(3).
	Close() error
}

// SRQAttr has the parameters of PD.CreateSRQ. The queue may become larger than
// requested: SRQ.Caps returns the actual sizes. Source: ibv_create_srq(3).
type SRQAttr struct {
	MaxWR  int // number of work requests outstanding
	MaxSGE int // number of scatter/gather entries of one work request
	// CQ is the queue that gets the completions of received messages. With manual
	// progress, the owner of CQ also owns the SRQ. Only the provider rdmacore accepts
	// nil.
	CQ CQ
}

// SRQCaps has the actual sizes of a shared receive queue.
type SRQCaps struct {
	MaxWR  int // number of work requests outstanding
	MaxSGE int // number of scatter/gather entries of one work request
}
