package verbs

import "time"

// A QP is a queue pair. The field CQAttr.Progress of the QP's CQs decides which
// goroutines may call the methods of the QP.
type QP interface {
	// Num returns the queue pair number, which has 24 bits.
	Num() uint32
	// Type returns the transport service: RC or UD.
	Type() QPType
	// PD returns the protection domain of the queue pair.
	PD() PD
	// State returns the current state of the queue pair.
	State() QPState
	// Caps returns the actual sizes of the queues, which may be larger than requested.
	Caps() QPCaps

	// Modify changes the attributes whose bits are set in the mask. If the mask has
	// AttrState, Modify moves the QP to attr.State. The change to StateError flushes all
	// posted work requests: they complete with StatusWRFlushErr. The change to StateReset
	// drops all posted work requests without completions. Modify never blocks. The provider
	// does not use attr after the call.
	//
	// After an error the QP is unchanged. For wrong arguments Modify returns the errors of
	// CheckTransition. Source: ibv_modify_qp(3).
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query returns the current attributes of the queue pair. Source: ibv_query_qp(3).
	Query() (QPAttr, error)

	// PostSend appends work requests to the send queue, and notifies the device once. The
	// QP must be in StateRTS, StateSQD or StateError. In StateError the requests complete
	// with StatusWRFlushErr. Source: ibv_post_send(3).
	//
	// The result n is the number of accepted requests. After an error, wrs[n] is the
	// request that was refused, and the requests after wrs[n] were not examined. The errors
	// are:
	//
	//   - ErrQueueFull: the queue is full until completions are polled.
	//   - ErrState: the state of the QP does not allow the call.
	//   - *ParamError, *FeatureError: the request can not be executed.
	//
	// After the call, the slices, SGE lists and inline data belong to the caller again. The
	// memory that SGEs name belongs to the device until the completion.
	PostSend(wrs []SendWR) (n int, err error)

	// SendInline sends a small message with one copy of the data. The call is equal to a
	// PostSend of a request with the operation OpSend, the flag verbs.SendInline and the
	// given flags. The caller owns data and may change data after the call.
	//
	// If SendInline can not send the message, for example because the queue is full,
	// SendInline does nothing and returns false. The caller then uses PostSend. If
	// SendInline returns true, the device may still delay the message until the next call
	// of Doorbell or PostSend.
	SendInline(id uint64, flags SendFlags, data []byte) bool
	// Doorbell makes the device execute the requests of earlier SendInline calls. If there
	// are no such requests, Doorbell does nothing. Doorbell may be called in every state of
	// the QP.
	Doorbell()

	// PostRecv appends work requests to the receive queue. Each request has one buffer. The
	// QP must be in StateInit or a later state. The results, the errors and the ownership
	// are the same as for PostSend. Source: ibv_post_recv(3).
	//
	// A QP with an SRQ has no receive queue of its own, so PostRecv returns a
	// *FeatureError. For a QP without an SRQ, PostRecv returns a *ParamError if
	// QPCaps.MaxRecvWR is 0.
	PostRecv(wrs []RecvWR) (n int, err error)

	// SetRecvMode changes how the QP receives messages. A new QP has the mode RecvBuffers,
	// and the change to StateReset sets this mode again. A message of which a part has
	// arrived is not affected.
	//
	// For an unknown mode the error is a *ParamError. If Caps.RecvModes is false, the error
	// is a *FeatureError.
	SetRecvMode(mode RecvMode) error

	// Close destroys the queue pair. Outstanding requests are dropped and get no
	// completions. Completions that were not polled yet may be dropped too. Source:
	// ibv_destroy_qp(3).
	Close() error
}

// RecvMode says how a QP receives messages.
type RecvMode uint8

// Values of RecvMode.
const (
	// RecvBuffers means that each message uses a receive buffer.
	RecvBuffers RecvMode = iota
	// RecvInline means that small messages may come inline, without a receive buffer, if the
	// receive CQ has memory for them: see CQAttr.Inline.
	RecvInline
	// RecvPaused means that the QP takes no receive buffer. So the peer of one QP of an SRQ
	// can be held back, and the others go on. A message of the peer, or a WRITE with
	// immediate data, gets an RNR NAK, as if there was no buffer: the peer repeats it, as
	// often as its QPAttr.RNRRetry allows, and sends nothing behind it meanwhile. The device
	// may let it wait longer than QPAttr.MinRNRTimer. READs, atomics and other WRITEs are
	// executed. After the pause the peer goes on when it repeats the message.
	RecvPaused
)

// QPType is the transport service of a queue pair.
type QPType uint8

// Queue pair types, numbered as in enum ibv_qp_type.
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
// A queue pair can not receive messages if it has no SRQ and MaxRecvWR is 0. The provider
// rdmacore uses a MaxRecvWR of 1 instead of 0.
type QPCaps struct {
	MaxSendWR int // number of work requests outstanding on the send queue
	// MaxRecvWR is the number of work requests outstanding on the receive queue. With an
	// SRQ the actual number is 0.
	MaxRecvWR  int
	MaxSendSGE int // number of scatter/gather entries of one send request
	MaxRecvSGE int // number of scatter/gather entries of one receive request
	MaxInline  int // number of bytes of inline data in one send request
}

// QPInitAttr has the parameters of PD.CreateQP.
type QPInitAttr struct {
	Type   QPType // required: the zero value is no type
	SendCQ CQ     // completion queue for send requests; required
	RecvCQ CQ     // completion queue for receives; required, may be the same as SendCQ
	SRQ    SRQ    // shared receive queue; nil means that the QP has its own receive queue
	Caps   QPCaps
	// If SignalAll is true, every send request has a completion, as if the request had the
	// flag SendSignaled. Source: sq_sig_all in ibv_create_qp(3).
	SignalAll bool
	// RecvTime asks for WC.Time in the receive completions of an RC queue pair. If
	// Caps.RecvTime is false, it has no effect.
	RecvTime bool
}

// QPState is a state in the state machine of a queue pair (IBTA vol. 1, 10.3.1).
type QPState uint8

// Queue pair states, numbered as in enum ibv_qp_state.
const (
	StateReset QPState = iota // the QP is new or was reset; no requests can be posted
	StateInit                 // receive buffers may be posted
	StateRTR                  // ready to receive: the QP can receive messages
	StateRTS                  // ready to send: the QP can send and receive messages
	StateSQD                  // send queue drained: new send requests wait until StateRTS
	StateSQE                  // send queue error, only for UD: a send request has failed
	StateError                // all posted requests complete with StatusWRFlushErr
)

func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("QP state", uint64(s))
}

// QPAttr has the attributes of a queue pair. QP.Modify uses only the fields in its mask.
// Source: ibv_modify_qp(3).
type QPAttr struct {
	State  QPState
	Access Access // access rights of the peer; AccessLocalWrite has no effect
	Port   uint8  // number of the device port, from 1
	QKey   uint32 // for UD: Q_Key that arriving datagrams must carry
	AH     AHAttr // for RC: address of the peer

	PathMTU MTU    // MTU of the network path to the peer
	DestQPN uint32 // for RC: QP number of the peer
	RQPSN   uint32 // sequence number of the first packet from the peer, 24 bits
	SQPSN   uint32 // sequence number of the first packet to the peer, 24 bits

	// MaxDestRdAtomic is the number of READs and atomics of the peer that the QP executes
	// at a time (responder resources).
	MaxDestRdAtomic uint8
	// MaxRdAtomic is the number of READs and atomics that the QP can have outstanding
	// (initiator depth).
	MaxRdAtomic uint8

	// MinRNRTimer is the timer code, 0..31, of the time that the peer waits after an RNR
	// NAK; see RNRDelay.
	MinRNRTimer uint8
	Timeout     uint8 // code of the local ACK timeout, 0..31; see AckTimeout
	RetryCount  uint8 // number of retries of a request that was not acknowledged, 0..7
	RNRRetry    uint8 // number of retries after an RNR NAK, 0..7; 7 means no limit
}

// QPAttrMask is a set of fields of QPAttr. Each field has one bit.
type QPAttrMask uint32

// Bits that stand for the fields of a QPAttr, with the values of enum ibv_qp_attr_mask.
const (
	AttrState           QPAttrMask = 1 << 0
	AttrAccess          QPAttrMask = 1 << 3
	AttrPort            QPAttrMask = 1 << 5
	AttrQKey            QPAttrMask = 1 << 6
	AttrAV              QPAttrMask = 1 << 7 // bit of the field AH, an address vector
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

// RNRRetryForever is the value of QPAttr.RNRRetry that means retries without a limit.
const RNRRetryForever = 7

// MaxRetry is the largest value of QPAttr.RetryCount and QPAttr.RNRRetry. Both have three
// bits.
const MaxRetry = 7

// MaxQPNum is the largest queue pair number, and MaxPSN is the largest packet sequence
// number. Both numbers have 24 bits.
const (
	MaxQPNum = 1<<24 - 1
	MaxPSN   = 1<<24 - 1
)

// MaxTimerCode is the largest code of a local ACK timeout and of an RNR NAK timer. The
// codes have five bits.
const MaxTimerCode = 31

// AckTimeoutUnit is the unit of the local ACK timeout. The timeout with the code n is
// this unit times 2^n (IBTA vol. 1, 9.7.6.1.3).
const AckTimeoutUnit = 4096 * time.Nanosecond

// rnrDelays has the delay of each RNR NAK timer code, in units of 10 µs (IBTA vol. 1,
// table 45).
var rnrDelays = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRDelay returns how long a sender waits after an RNR NAK with the given timer code.
// Code 0 means 655.36 ms. Codes 1 to 31 mean 10 µs to 491.52 ms. Only the low five bits
// of the code count.
func RNRDelay(code uint8) time.Duration {
	return time.Duration(rnrDelays[code&MaxTimerCode]) * 10 * time.Microsecond
}

// RNRDelayCode returns the RNR NAK timer code of the shortest delay that is not shorter
// than d. If d is above 655.36 ms, no code has such a delay, and ok is false.
func RNRDelayCode(d time.Duration) (code uint8, ok bool) {
	for code = 1; code <= MaxTimerCode; code++ {
		if RNRDelay(code) >= d {
			return code, true
		}
	}
	return 0, d <= RNRDelay(0)
}

// AckTimeout returns the local ACK timeout with the given code: 4.096 µs * 2^code. For
// code 0, which means no timeout, AckTimeout returns 0. Only the low five bits of the
// code count.
func AckTimeout(code uint8) time.Duration {
	if code &= MaxTimerCode; code == 0 {
		return 0
	}
	return AckTimeoutUnit << code
}

// AckTimeoutCode returns the code, from 1 to 31, of the shortest local ACK timeout that
// is not shorter than d. If d is above about 8796 s, no code has such a timeout, and ok
// is false.
func AckTimeoutCode(d time.Duration) (code uint8, ok bool) {
	for code = 1; code <= MaxTimerCode; code++ {
		if AckTimeout(code) >= d {
			return code, true
		}
	}
	return 0, false
}

// An SRQ is a shared receive queue: several QPs of one domain take their receive buffers
// from the queue. The field CQAttr.Progress of the QPs' CQs decides which goroutines may
// call the methods of the SRQ.
type SRQ interface {
	// PostRecv appends work requests to the queue. Each request has one buffer. The
	// results, the errors and the ownership are the same as for QP.PostRecv. Source:
	// ibv_post_srq_recv(3).
	PostRecv(wrs []RecvWR) (n int, err error)
	// Arm requests one AsyncSRQLimit event. The device reports the event when the queue has
	// fewer buffers than the limit. A limit of 0 cancels the request. Source:
	// ibv_modify_srq(3).
	Arm(limit int) error
	// Caps returns the actual sizes of the queue, which may be larger than requested.
	Caps() SRQCaps
	// Close destroys the queue. Close returns ErrBusy while a QP uses the queue. Source:
	// ibv_destroy_srq(3).
	Close() error
}

// SRQAttr has the parameters of PD.CreateSRQ. The queue may become larger than
// requested: SRQ.Caps returns the actual sizes. Source: ibv_create_srq(3).
type SRQAttr struct {
	MaxWR  int // number of work requests outstanding
	MaxSGE int // number of scatter/gather entries of one work request
	// CQ is the completion queue for the received messages. With manual progress, the owner
	// of CQ also owns the SRQ. Only the provider rdmacore accepts a nil CQ.
	CQ CQ
	// BuffersPerQP is how many work requests the program keeps posted for each QP of the
	// SRQ, so that a peer with no more messages outstanding gets no RNR NAK. Zero means
	// that there may be fewer work requests than QPs. The software device then limits how
	// many of them the incomplete messages of one source hold. Other devices ignore
	// BuffersPerQP.
	BuffersPerQP int
}

// SRQCaps has the actual sizes of a shared receive queue.
type SRQCaps struct {
	MaxWR  int // number of work requests outstanding
	MaxSGE int // number of scatter/gather entries of one work request
}
