package verbs

import "time"

// A QP is a queue pair. CQAttr.Progress of its CQs decides which goroutines may call the
// methods of the QP.
type QP interface {
	// Num returns the queue pair number, 24 bits.
	Num() uint32
	// Type returns the transport service.
	Type() QPType
	// PD returns the domain of the queue pair.
	PD() PD
	// State returns the current state.
	State() QPState
	// Caps returns the actual sizes of the queues, which may be larger than requested.
	Caps() QPCaps

	// Modify changes the attributes whose bits are set in the mask. With AttrState, the
	// QP moves to attr.State. StateError flushes both queues. StateReset drops all work
	// requests; they get no completions. Modify never blocks and does not keep attr.
	//
	// After an error the QP is unchanged. Wrong arguments get the errors of
	// CheckTransition. Source: ibv_modify_qp(3).
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query returns the current attributes. Source: ibv_query_qp(3).
	Query() (QPAttr, error)

	// PostSend appends work requests to the send queue, and notifies the device once.
	// The QP must be in StateRTS or StateSQD. In StateError all requests are flushed.
	// Source: ibv_post_send(3).
	//
	// The result n is the number of accepted requests. After an error, wrs[n] was not
	// accepted, and later requests were not examined. The errors are:
	//
	//   - ErrQueueFull: there is room again after a poll of completions.
	//   - ErrState: the state of the QP does not allow the call.
	//   - *ParamError, *FeatureError: the request can not be executed.
	//
	// The slices, SGE lists and inline data belong to the caller again after the call.
	// Memory named by SGEs belongs to the device until the completion.
	PostSend(wrs []SendWR) (n int, err error)

	// PostRecv appends work requests, with one buffer each, to the receive queue.
	// Results, errors and ownership are as for PostSend. The QP must be in StateInit or a
	// later state. If the QP has an SRQ, the error is a *FeatureError. Otherwise, if
	// QPCaps.MaxRecvWR is 0, the error is a *ParamError. Source: ibv_post_recv(3).
	PostRecv(wrs []RecvWR) (n int, err error)

	// Close destroys the queue pair. Outstanding requests are dropped without
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

// QPCaps has the sizes of a queue pair. CreateQP changes a zero in MaxSendWR, MaxSendSGE
// or MaxRecvSGE to 1. Without an SRQ, a queue pair whose MaxRecvWR is 0 can not receive
// messages. Exception: rdmacore changes the 0 to 1. QP.Caps returns the actual sizes.
// Source: ibv_create_qp(3).
type QPCaps struct {
	MaxSendWR  int // number of work requests outstanding on the send queue
	MaxRecvWR  int // number of work requests outstanding on the receive queue; 0 with an SRQ
	MaxSendSGE int // number of scatter/gather entries of one send request
	MaxRecvSGE int // number of scatter/gather entries of one receive request
	MaxInline  int // inline data of one send request, in bytes
}

// QPInitAttr has the parameters of PD.CreateQP.
type QPInitAttr struct {
	Type   QPType
	SendCQ CQ
	RecvCQ CQ  // completion queue of the receive queue; it may be the same as SendCQ
	SRQ    SRQ // shared receive queue; nil means that the QP has a receive queue of its own
	Caps   QPCaps
	// SignalAll makes every send request signaled, as if it had SendSignaled (sq_sig_all
	// of struct ibv_qp_init_attr).
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
	Access Access // rights of the peer; AccessLocalWrite has no effect
	Port   uint8  // number of the device port, from 1
	QKey   uint32 // for UD: key that an arriving datagram must carry
	AH     AHAttr // for RC: address of the peer

	PathMTU MTU    // MTU of the network path to the peer
	DestQPN uint32 // for RC: QP number of the peer
	RQPSN   uint32 // sequence number of the first packet from the peer, 24 bits
	SQPSN   uint32 // sequence number of the first packet to the peer, 24 bits

	MaxDestRdAtomic uint8 // number of READs and atomics of the peer served at a time (responder resources)
	MaxRdAtomic     uint8 // number of own READs and atomics outstanding (initiator depth)

	MinRNRTimer uint8 // code, 0..31, of the time that the peer waits after an RNR NAK of this QP; see RNRDelay
	Timeout     uint8 // code of the local ACK timeout, 0..31; see AckTimeout
	RetryCount  uint8 // number of retries of a request that was not acknowledged, 0..7
	RNRRetry    uint8 // number of retries of a request after an RNR NAK, 0..7; 7 means no limit
}

// QPAttrMask is a set of fields of QPAttr, with one bit for each field.
type QPAttrMask uint32

// Attribute masks, one for each field of QPAttr, with the bits of enum ibv_qp_attr_mask.
const (
	AttrState           QPAttrMask = 1 << 0  // bit for QPAttr.State
	AttrAccess          QPAttrMask = 1 << 3  // bit for QPAttr.Access
	AttrPort            QPAttrMask = 1 << 5  // bit for QPAttr.Port
	AttrQKey            QPAttrMask = 1 << 6  // bit for QPAttr.QKey
	AttrAV              QPAttrMask = 1 << 7  // bit for QPAttr.AH
	AttrPathMTU         QPAttrMask = 1 << 8  // bit for QPAttr.PathMTU
	AttrTimeout         QPAttrMask = 1 << 9  // bit for QPAttr.Timeout
	AttrRetryCount      QPAttrMask = 1 << 10 // bit for QPAttr.RetryCount
	AttrRNRRetry        QPAttrMask = 1 << 11 // bit for QPAttr.RNRRetry
	AttrRQPSN           QPAttrMask = 1 << 12 // bit for QPAttr.RQPSN
	AttrMaxRdAtomic     QPAttrMask = 1 << 13 // bit for QPAttr.MaxRdAtomic
	AttrMinRNRTimer     QPAttrMask = 1 << 15 // bit for QPAttr.MinRNRTimer
	AttrSQPSN           QPAttrMask = 1 << 16 // bit for QPAttr.SQPSN
	AttrMaxDestRdAtomic QPAttrMask = 1 << 17 // bit for QPAttr.MaxDestRdAtomic
	AttrDestQPN         QPAttrMask = 1 << 20 // bit for QPAttr.DestQPN
)

// RNRRetryForever is the value of QPAttr.RNRRetry that means no limit.
const RNRRetryForever = 7

// MaxRetry is the largest retry count. The field of a retry count has three bits.
const MaxRetry = 7

// MaxQPNum is the largest queue pair number, and MaxPSN the largest packet sequence
// number. Both have 24 bits.
const (
	MaxQPNum = 1<<24 - 1
	MaxPSN   = 1<<24 - 1
)

// MaxTimerCode is the largest code of a local ACK timeout or an RNR NAK timer. Both
// codes have five bits.
const MaxTimerCode = 31

// AckTimeoutUnit is the unit of the codes of the local ACK timeout: the code n means the
// unit times 2^n (IBTA vol. 1, 9.7.6.1.3).
const AckTimeoutUnit = 4096 * time.Nanosecond

// rnrDelays has the delay of each RNR NAK timer code, in units of 10 µs (IBTA vol. 1,
// table 45).
var rnrDelays = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRDelay returns how long a sender waits after an RNR NAK with this timer code. Code 0
// is 655.36 ms. Codes 1 to 31 are 10 µs to 491.52 ms. Only the low five bits count.
func RNRDelay(code uint8) time.Duration {
	return time.Duration(rnrDelays[code&MaxTimerCode]) * 10 * time.Microsecond
}

// RNRDelayCode returns the RNR NAK timer code of the shortest delay that is at least d.
// If d is more than 655.36 ms, the longest delay, ok is false.
func RNRDelayCode(d time.Duration) (code uint8, ok bool) {
	for code = 1; code <= MaxTimerCode; code++ {
		if RNRDelay(code) >= d {
			return code, true
		}
	}
	return 0, d <= RNRDelay(0)
}

// AckTimeout returns the local ACK timeout with this code: 4.096 µs * 2^code. Code 0
// means no timeout, and the result is 0. Only the low five bits of code count.
func AckTimeout(code uint8) time.Duration {
	if code &= MaxTimerCode; code == 0 {
		return 0
	}
	return AckTimeoutUnit << code
}

// AckTimeoutCode returns the code, from 1 to 31, of the shortest local ACK timeout that
// is at least d. If d is more than 8796 s, the longest timeout, ok is false.
func AckTimeoutCode(d time.Duration) (code uint8, ok bool) {
	for code = 1; code <= MaxTimerCode; code++ {
		if AckTimeout(code) >= d {
			return code, true
		}
	}
	return 0, false
}

// An SRQ is a receive queue that several QPs of one domain share. CQAttr.Progress of
// their CQs decides which goroutines may call its methods.
type SRQ interface {
	// PostRecv appends work requests, with one buffer each. Results, errors and ownership
	// are as for QP.PostRecv. Source: ibv_post_srq_recv(3).
	PostRecv(wrs []RecvWR) (n int, err error)
	// Arm requests one AsyncSRQLimit event, for the time when the queue has fewer
	// buffers than the limit. If the limit is 0, Arm cancels the request. Source:
	// ibv_modify_srq(3).
	Arm(limit int) error
	// Caps returns the actual sizes of the queue, which may be larger than requested.
	Caps() SRQCaps
	// Close destroys the queue. It returns ErrBusy while a QP uses the queue. Source:
	// ibv_destroy_srq(3).
	Close() error
}

// SRQAttr has the parameters of PD.CreateSRQ. The sizes are the smallest that the caller
// accepts; SRQ.Caps returns the actual sizes. Source: ibv_create_srq(3).
type SRQAttr struct {
	MaxWR  int // number of work requests outstanding
	MaxSGE int // number of scatter/gather entries of one work request
	// CQ is the queue on which the receives complete. With manual progress, the owner of
	// CQ also owns the SRQ. The provider soft needs CQ; rdmacore also accepts nil.
	CQ CQ
}

// SRQCaps has the sizes of a shared receive queue: the largest numbers that it accepts.
type SRQCaps struct {
	MaxWR  int // number of work requests outstanding
	MaxSGE int // number of scatter/gather entries of one work request
}
