//go:build linux

package connmgr

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Message is a message of connection management, on the local path or on the wire path
// (IBTA vol. 1, 12.6 and 12.11). It is a pointer to one of the types below. Unless a
// comment says otherwise, the fields describe the sender.
type Message interface{ isMessage() }

// Endpoints are the addresses and ports of both sides of a connection or SIDR request.
type Endpoints struct {
	Src, Dst netip.AddrPort
}

// QPParams are the parameters of the sender's queue pair.
type QPParams struct {
	QPN uint32 // queue pair number, 24 bits
	PSN uint32 // first packet sequence number that the queue pair expects, 24 bits
	SRQ bool   // true if the queue pair has a shared receive queue

	// number of incoming READs and atomics that the queue pair can serve at a time
	ResponderResources uint8
	// largest number of outgoing READs and atomics that the queue pair has in flight
	InitiatorDepth uint8
	// RNR retry count that the receiver's queue pair has to use, 3 bits
	RNRRetry uint8
	// true if the queue pair advertises its receive buffers (end-to-end flow control);
	// ignored if SRQ is true
	FlowControl bool
}

// SharedMemory has the fields of a REQ or REP that only the local path uses.
type SharedMemory struct {
	Shard shm.ShardID // shard of the sender's queue pair
	// The fields Segment, Side and Passed are set only in a REP. Segment is the number
	// of the chosen segment, and Side is the sender's side of it; see shm.End. Passed is
	// true if descriptors of the segment come with the REP.
	Segment uint64
	Side    uint8
	Passed  bool
}

// REQ requests a connection.
type REQ struct {
	Endpoints
	QPParams
	Retry   uint8 // retry count for both queue pairs, 3 bits
	Private []byte

	// The fields MTU, AckTimeout and TOS are used only on the wire path. AckTimeout is
	// the ACK timeout of the passive side's queue pair, a code of 5 bits.
	MTU        verbs.MTU
	AckTimeout uint8
	TOS        uint8

	Shared SharedMemory
}

// REP accepts a connection request.
type REP struct {
	QPParams
	Private []byte

	// AckDelay is the ACK delay of the sender's device, a code of 5 bits. It is set only on
	// the wire path.
	AckDelay uint8

	Shared SharedMemory
}

// RTU (ready to use) confirms a REP.
type RTU struct{}

// REJ refuses a REQ or a REP, or cancels a REQ.
type REJ struct {
	Reason cm.RejectReason
	// true if the sender's application has refused; false if its system has refused
	ByApplication bool
	Private       []byte // private data of the sender's application
	// Cause explains the refusal to the application of the receiver. It is not part of the
	// message that is sent.
	Cause error

	// UserRefused is true if this REJ refuses the user of its receiver. Only the local
	// path sets it.
	UserRefused bool
}

// DREQ asks the peer to disconnect.
type DREQ struct {
	Private []byte // private data of the sender's application
}

// DREP confirms a DREQ.
type DREP struct{}

// SIDRREQ (SIDR_REQ, the SIDR request) asks for the queue pair number and the Q_Key of
// a UD service.
type SIDRREQ struct {
	Endpoints
	Private []byte
}

// SIDRREP (SIDR_REP) answers or refuses a SIDR request.
type SIDRREP struct {
	Status cm.SIDRStatus
	QPN    uint32 // queue pair number, 24 bits
	QKey   uint32 // Q_Key of the queue pair
	// true if the application has refused; false if the system has refused
	ByApplication bool
	Private       []byte // private data of the sender's application

	// UserRefused is true if the sender does not allow the receiver's user. Only the
	// local path sets it.
	UserRefused bool
}

func (*REQ) isMessage()     {}
func (*REP) isMessage()     {}
func (*RTU) isMessage()     {}
func (*REJ) isMessage()     {}
func (*DREQ) isMessage()    {}
func (*DREP) isMessage()    {}
func (*SIDRREQ) isMessage() {}
func (*SIDRREP) isMessage() {}

// userRefused returns an error with the user of this process. It returns nil if the parameter
// refused is false.
func userRefused(refused bool) error {
	if !refused {
		return nil
	}
	return fmt.Errorf("%w: the listener refuses user %d, of this process", cm.ErrUserNotAllowed, os.Geteuid())
}
