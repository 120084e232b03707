package verbs

// A WC is a work completion, which says how one work request ended. If Status is not
// StatusSuccess, only ID, Status, QPN and VendorErr are valid. Source: ibv_poll_cq(3).
type WC struct {
	ID     uint64 // ID of the work request, from SendWR.ID or RecvWR.ID
	Status Status
	Opcode WCOpcode // operation that completed
	Flags  WCFlags  // flags that say which optional fields are valid
	// ByteLen is the number of bytes that were received or read. On UD the number includes
	// the GRHSize bytes of the routing header.
	ByteLen uint32
	// If Flags has WCWithImm, Imm is the immediate data in host byte order. If Flags has
	// WCWithInv, Imm is the key of the memory window that the peer has invalidated.
	Imm       uint32
	QPN       uint32 // number of the local QP
	SrcQPN    uint32 // for UD: QP number of the sender
	VendorErr uint32 // error code of the device's vendor; 0 means none
	// Time is when the packet that completed a received message has arrived, in nanoseconds
	// since 1970 (CLOCK_REALTIME). It is 0 if the device does not know it, and for a QP
	// without QPInitAttr.RecvTime.
	Time int64
}

// WCOpcode is the operation that completed.
type WCOpcode uint8

// Completion opcodes, in the order of enum ibv_wc_opcode. In that enum, WCRecv and
// WCRecvWriteImm have larger numbers than here.
const (
	WCSend         WCOpcode = iota // a SEND completed
	WCWrite                        // a WRITE completed
	WCRead                         // a READ completed
	WCCompareSwap                  // a compare-and-swap completed
	WCFetchAdd                     // a fetch-and-add completed
	WCBindMW                       // a bind of a memory window completed
	WCLocalInv                     // a local invalidation completed
	WCRecv                         // a message of a SEND was received
	WCRecvWriteImm                 // a WRITE with immediate data was received
)

func (o WCOpcode) String() string {
	names := [...]string{"SEND", "WRITE", "READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV", "RECV", "RECV_RDMA_WITH_IMM"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("completion opcode", uint64(o))
}

// Receive reports whether the opcode is that of a receive completion.
func (o WCOpcode) Receive() bool { return o == WCRecv || o == WCRecvWriteImm }

// WCFlags is a set of flags of a completion. The flags say which optional parts of the
// completion are valid.
type WCFlags uint8

// Completion flags, with the bits of enum ibv_wc_flags. WCInline is not in that enum.
const (
	WCWithGRH WCFlags = 1 << 0 // the first GRHSize bytes of the buffer hold a routing header
	WCWithImm WCFlags = 1 << 1 // the field Imm has immediate data
	WCWithInv WCFlags = 1 << 3 // the field Imm has the key of an invalidated memory window
	// WCInline means that the message is in CQAttr.Inline, not in the receive buffer.
	WCInline WCFlags = 1 << 7
)

// Status says whether a work request succeeded or why the request failed.
type Status uint8

// Statuses, numbered as in enum ibv_wc_status.
const (
	StatusSuccess        Status = iota // the request was executed
	StatusLocLenErr                    // the message is longer than the local buffer or the limit of the device
	StatusLocQPOpErr                   // the device found the local QP inconsistent
	StatusLocEECOpErr                  // occurs only with reliable datagrams, which this package lacks
	StatusLocProtErr                   // an SGE has a wrong key, exceeds its region, or lacks access rights
	StatusWRFlushErr                   // the QP was in the error state, so the request was not finished
	StatusMWBindErr                    // a memory window could not be bound
	StatusBadRespErr                   // the peer sent an unexpected response
	StatusLocAccessErr                 // the local buffer for a WRITE with immediate data is not usable
	StatusRemInvReqErr                 // the peer reported an invalid request
	StatusRemAccessErr                 // the peer reported a wrong remote key or range, or a missing access right
	StatusRemOpErr                     // the peer could not execute the request
	StatusRetryExcErr                  // no acknowledgement came, even after QPAttr.RetryCount retries
	StatusRNRRetryExcErr               // the peer had no receive buffer, even after QPAttr.RNRRetry retries
	StatusLocRDDViolErr                // occurs only with reliable datagrams, which this package lacks
	StatusRemInvRDReqErr               // occurs only with reliable datagrams, which this package lacks
	StatusRemAbortErr                  // the peer aborted the request
	StatusInvEECNErr                   // occurs only with reliable datagrams, which this package lacks
	StatusInvEECStateErr               // occurs only with reliable datagrams, which this package lacks
	StatusFatalErr                     // the device failed
	StatusRespTimeoutErr               // the peer did not respond in time
	StatusGeneralErr                   // any other error
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "work request flushed", "memory window bind error", "bad response",
	"local access error", "remote invalid request", "remote access error", "remote operation error",
	"transport retry count exceeded", "RNR retry count exceeded", "local RDD violation",
	"remote invalid RD request", "remote abort", "invalid EE context number",
	"invalid EE context state", "fatal error", "response timeout", "general error",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return unknown("completion status", uint64(s))
}

// A Fault says whether the cause of a failed request is on this side or on the peer's
// side.
type Fault uint8

// Causes of a failed request.
const (
	FaultNone    Fault = iota // the request succeeded
	FaultLocal                // the cause is the request itself, its memory or the device
	FaultRemote               // the peer refused or did not acknowledge the request, or was not ready
	FaultFlushed              // an earlier failure or a disconnect ended the request
)

func (f Fault) String() string {
	names := [...]string{"none", "local", "remote", "flushed"}
	if int(f) < len(names) {
		return names[f]
	}
	return unknown("fault", uint64(f))
}

// Fault returns the Fault of a request that ended with the status s.
func (s Status) Fault() Fault {
	switch s {
	case StatusSuccess:
		return FaultNone
	case StatusWRFlushErr:
		return FaultFlushed
	case StatusBadRespErr, StatusRemInvReqErr, StatusRemAccessErr, StatusRemOpErr,
		StatusRetryExcErr, StatusRNRRetryExcErr, StatusRemInvRDReqErr, StatusRemAbortErr, StatusRespTimeoutErr:
		return FaultRemote
	}
	return FaultLocal
}

// Err returns nil for a successful completion. Otherwise it returns a new
// *CompletionError.
func (w *WC) Err() error {
	if w.Status == StatusSuccess {
		return nil
	}
	return &CompletionError{Status: w.Status, QPN: w.QPN, VendorErr: w.VendorErr}
}
