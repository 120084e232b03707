//go:build linux

package connmgr

import (
	"net/netip"
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message is a message of connection management, on the local path or on the wire path
// (IBTA vol. 1, 12.6 and 12.11). It is a pointer to one of the types below. Unless a
// comment says otherwise, the fields describe the sender.
type message interface{ isMessage() }

// endpoints are the addresses and ports of both sides of a connection or SIDR request.
type endpoints struct {
	src, dst netip.AddrPort
}

// qpParams are the parameters of the sender's queue pair.
type qpParams struct {
	qpn uint32 // queue pair number, 24 bits
	psn uint32 // first packet sequence number that the queue pair expects, 24 bits
	srq bool   // true if the queue pair has a shared receive queue

	// number of incoming READs and atomics that the queue pair can serve at a time
	responderResources uint8
	// largest number of outgoing READs and atomics that the queue pair has in flight
	initiatorDepth uint8
	// RNR retry count that the receiver's queue pair has to use, 3 bits
	rnrRetry uint8
	// true if the queue pair advertises its receive buffers (end-to-end flow control);
	// ignored if srq is true
	flowControl bool
}

// sharedMemory has the fields of a REQ or REP that only the local path uses.
type sharedMemory struct {
	shard shm.ShardID // shard of the sender's queue pair
	// The fields segment, side and passed are set only in a REP. segment is the number
	// of the chosen segment, and side is the sender's side of it; see shm.End. passed is
	// true if descriptors of the segment come with the REP.
	segment uint64
	side    uint8
	passed  bool
}

// reqMsg (REQ) requests a connection.
type reqMsg struct {
	endpoints
	qpParams
	retry   uint8 // retry count for both queue pairs, 3 bits
	private []byte

	// The fields mtu, ackTimeout and tos are used only on the wire path. ackTimeout is
	// the ACK timeout of the passive side's queue pair, a code of 5 bits.
	mtu        verbs.MTU
	ackTimeout uint8
	tos        uint8

	shared sharedMemory
}

// repMsg (REP) accepts a connection request.
type repMsg struct {
	qpParams
	private []byte

	// ackDelay is the ACK delay of the sender's device, a code of 5 bits. It is set only on
	// the wire path.
	ackDelay uint8

	shared sharedMemory
}

// rtuMsg (RTU, ready to use) confirms a REP.
type rtuMsg struct{}

// rejMsg (REJ) refuses a REQ or a REP, or cancels a REQ.
type rejMsg struct {
	reason cm.RejectReason
	// true if the sender's application has refused; false if its system has refused
	byApplication bool
	private       []byte // private data of the sender's application
	// cause explains the refusal to the application of the receiver. It is not part of the
	// message that is sent.
	cause error

	// userRefused is true if this REJ refuses the user of its receiver. Only the local
	// path sets it.
	userRefused bool
}

// dreqMsg (DREQ) asks the peer to disconnect.
type dreqMsg struct{}

// drepMsg (DREP) confirms a DREQ.
type drepMsg struct{}

// sidrReqMsg (SIDR_REQ, the SIDR request) asks for the queue pair number and the Q_Key of
// a UD service.
type sidrReqMsg struct {
	endpoints
	private []byte
}

// sidrRepMsg (SIDR_REP) answers or refuses a SIDR request.
type sidrRepMsg struct {
	status cm.SIDRStatus
	qpn    uint32 // queue pair number, 24 bits
	qkey   uint32 // Q_Key of the queue pair
	// true if the application has refused; false if the system has refused
	byApplication bool
	private       []byte // private data of the sender's application

	// userRefused is true if the sender does not allow the receiver's user. Only the
	// local path sets it.
	userRefused bool
}

func (*reqMsg) isMessage()     {}
func (*repMsg) isMessage()     {}
func (*rtuMsg) isMessage()     {}
func (*rejMsg) isMessage()     {}
func (*dreqMsg) isMessage()    {}
func (*drepMsg) isMessage()    {}
func (*sidrReqMsg) isMessage() {}
func (*sidrRepMsg) isMessage() {}

// A cmConn exchanges the messages of one ID with its peer over one path. It passes
// received messages to id.deliver. Its methods are called with the channel locked, and do
// not block.
type cmConn interface {
	// path returns LocalPath or WirePath.
	path() string
	// dial sends a request. If it returns an error, it has sent nothing, and may be called
	// again.
	dial(request message) error
	// attach returns the binding with which the queue pair qpn reaches the peer. It is called
	// before the queue pair enters RTR, and before the REP is sent.
	attach(qpn uint32) (*Binding, error)
	// send sends a message. It returns verbs.ErrPeerGone if the peer has closed the
	// connection.
	send(m message) error
	// stopDelivery ends the delivery of received messages to the ID. The ID can still send
	// messages.
	stopDelivery()
	// move moves the connection to another channel. Both channels are locked.
	move(to *channel) error
	// close closes the connection without sending a message.
	close()
}

// A listener passes the requests of one path to id.incoming. Its methods are called with
// the channel locked, and do not block.
type listener interface {
	// setAccepting sets whether the listener accepts requests. While the listener does not
	// accept requests, requests on the local path wait, and REQs on the wire path are
	// dropped.
	setAccepting(accept bool)
	// serves returns the addresses of the listener. The field Err of an address says why the
	// address could not be opened.
	serves() []cm.ServedAddr
	move(to *channel) error
	close()
}

// userRefused returns a *cm.UserError with the user of this process. It returns nil if
// the parameter refused is false.
func userRefused(refused bool) error {
	if !refused {
		return nil
	}
	return &cm.UserError{UID: uint32(os.Geteuid())}
}
