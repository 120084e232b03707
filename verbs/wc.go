package verbs

// A WC is a work completion. When Status is not StatusSuccess only ID, Status,
// QPN and VendorErr are valid (ibv_poll_cq(3)).
type WC struct {
	ID        uint64
	Status    Status
	Opcode    WCOpcode
	Flags     WCFlags
	ByteLen   uint32 // bytes received, or read; on UD including the 40 of the header
	Imm       uint32 // with WCWithImm, in host order
	QPN       uint32 // the local QP
	SrcQPN    uint32 // UD: the sender
	VendorErr uint32
}

// WCOpcode tells what completed.
type WCOpcode uint8

// Completion opcodes, numbered as enum ibv_wc_opcode except that the two
// receives follow directly.
const (
	WCSend WCOpcode = iota
	WCWrite
	WCRead
	WCCompareSwap
	WCFetchAdd
	WCRecv         // a SEND arrived
	WCRecvWriteImm // a WRITE with immediate arrived
)

func (o WCOpcode) String() string {
	names := [...]string{"SEND", "WRITE", "READ", "COMP_SWAP", "FETCH_ADD", "RECV", "RECV_RDMA_WITH_IMM"}
	if int(o) < len(names) {
		return names[o]
	}
	return unknown("completion opcode", uint64(o))
}

// Receive reports whether the completion is that of a receive buffer.
func (o WCOpcode) Receive() bool { return o == WCRecv || o == WCRecvWriteImm }

// WCFlags tell which optional fields of a WC are valid.
type WCFlags uint8

// Completion flags, with the bits of enum ibv_wc_flags.
const (
	WCWithGRH WCFlags = 1 << 0 // the first 40 bytes of the buffer are a header
	WCWithImm WCFlags = 1 << 1 // Imm is valid
)

// Status is how a work request ended.
type Status uint8

// Statuses, numbered as enum ibv_wc_status.
const (
	StatusSuccess        Status = iota
	StatusLocLenErr             // message longer than the local buffer, or than the device allows
	StatusLocQPOpErr            // inconsistency inside the local QP
	StatusLocEECOpErr           // RD only
	StatusLocProtErr            // an SGE's key, bounds or rights do not hold
	StatusWRFlushErr            // the QP went to the error state before
	StatusMWBindErr             // memory window
	StatusBadRespErr            // the peer answered out of turn
	StatusLocAccessErr          // the local buffer of a WRITE with immediate
	StatusRemInvReqErr          // the peer found the request invalid
	StatusRemAccessErr          // the peer refused the remote key, bounds or rights
	StatusRemOpErr              // the peer could not carry out the request
	StatusRetryExcErr           // no answer, and the retries ran out
	StatusRNRRetryExcErr        // the peer had no receive buffer, and the retries ran out
	StatusLocRDDViolErr         // RD only
	StatusRemInvRDReqErr        // RD only
	StatusRemAbortErr           // aborted by the peer
	StatusInvEECNErr            // RD only
	StatusInvEECStateErr        // RD only
	StatusFatalErr              // the device failed
	StatusRespTimeoutErr        // response timeout
	StatusGeneralErr            // anything else
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

// Fault tells on whose side a failed completion has its cause.
type Fault uint8

// Whose fault it was.
const (
	FaultNone    Fault = iota // success
	FaultLocal                // the request, its memory or the local device
	FaultRemote               // the peer refused, did not answer, or was not ready
	FaultFlushed              // an earlier failure or a disconnect took this request with it
)

func (f Fault) String() string {
	names := [...]string{"none", "local", "remote", "flushed"}
	if int(f) < len(names) {
		return names[f]
	}
	return unknown("fault", uint64(f))
}

// Fault classifies the status.
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

// Err is nil for a successful completion and else a *CompletionError. It
// allocates.
func (w *WC) Err() error {
	if w.Status == StatusSuccess {
		return nil
	}
	return &CompletionError{Status: w.Status, QPN: w.QPN, VendorErr: w.VendorErr}
}
