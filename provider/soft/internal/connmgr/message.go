//go:build linux

package connmgr

import (
	"net/netip"
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message is one message of connection management on either path (IBTA vol. 1, 12.6
// and 12.11). It is a pointer to one of the types below. The fields describe the sender.
type message interface{ kind() messageKind }

// messageKind is the type of a message. Its value is the attribute of the MAD minus 0x10
// (IBTA vol. 1, 16.7.2).
type messageKind uint8

const (
	kindREQ     messageKind = 0
	kindREJ     messageKind = 2
	kindREP     messageKind = 3
	kindRTU     messageKind = 4
	kindDREQ    messageKind = 5
	kindDREP    messageKind = 6
	kindSIDRREQ messageKind = 7
	kindSIDRREP messageKind = 8
)

// endpoints are the addresses and ports of both sides in a request.
type endpoints struct {
	src, dst netip.AddrPort
}

// qpParams are the parameters of the sender's queue pair.
type qpParams struct {
	qpn uint32 // queue pair number, 24 bits
	psn uint32 // first packet sequence number that the queue pair expects, 24 bits
	srq bool   // true if the queue pair has a shared receive queue

	responderResources uint8 // number of READs and atomics that the queue pair can serve at a time
	initiatorDepth     uint8 // largest number of READs and atomics that the queue pair has in flight
	rnrRetry           uint8 // RNR retry count for the other side's queue pair, 3 bits
	flowControl        bool  // true if the queue pair advertises its receive buffers; ignored if srq is true
}

// sharedMemory has the fields of a REQ or REP that only the local path uses.
type sharedMemory struct {
	shard shm.ShardID // shard of the sender's queue pair
	// The other fields are set only in a REP. The sender of the REP has chosen a
	// segment, and uses one side of the segment; see shm.End. If passed is true, the
	// segment is new. Its descriptors then come with the REP.
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

	// Only the wire path uses these fields. ackTimeout is a code of 5 bits for the
	// passive side's queue pair.
	mtu        verbs.MTU
	ackTimeout uint8
	tos        uint8

	shared sharedMemory
}

// repMsg (REP) accepts a connection request.
type repMsg struct {
	qpParams
	private []byte

	// ackDelay is the code of the ACK delay of the sender's device. It is set only in
	// REPs from the wire path.
	ackDelay uint8

	shared sharedMemory
}

// rtuMsg (RTU, ready to use) confirms a REP.
type rtuMsg struct{}

// rejMsg (REJ) refuses a REQ or a REP, or cancels a REQ.
type rejMsg struct {
	reason        cm.RejectReason
	byApplication bool   // true if the application of the sender has refused
	private       []byte // private data of the sender's application
	// cause tells this side's application more about the refusal. It is not sent.
	cause error

	// userRefused is true if the sender does not allow the receiver's user. Only the
	// local path sets it.
	userRefused bool
}

// dreqMsg (DREQ) asks the peer to disconnect.
type dreqMsg struct{}

// drepMsg (DREP) confirms a DREQ.
type drepMsg struct{}

// sidrReqMsg (SIDR_REQ) asks for the queue pair number and the Q_Key of a UD service.
type sidrReqMsg struct {
	endpoints
	private []byte
}

// sidrRepMsg (SIDR_REP) answers a lookup, or refuses it.
type sidrRepMsg struct {
	status        cm.SIDRStatus
	qpn           uint32 // queue pair number, 24 bits
	qkey          uint32 // Q_Key of the queue pair
	byApplication bool   // true if the application of the sender has refused
	private       []byte // private data of the sender's application

	// userRefused is true if the sender does not allow the receiver's user. Only the
	// local path sets it.
	userRefused bool
}

func (*reqMsg) kind() messageKind     { return kindREQ }
func (*repMsg) kind() messageKind     { return kindREP }
func (*rtuMsg) kind() messageKind     { return kindRTU }
func (*rejMsg) kind() messageKind     { return kindREJ }
func (*dreqMsg) kind() messageKind    { return kindDREQ }
func (*drepMsg) kind() messageKind    { return kindDREP }
func (*sidrReqMsg) kind() messageKind { return kindSIDRREQ }
func (*sidrRepMsg) kind() messageKind { return kindSIDRREP }

// A cmConn exchanges the messages of one ID with the peer. It calls id.deliver and
// id.peerGone. Its methods are called with the channel locked, and do not block.
type cmConn interface {
	// attach prepares the data path of the queue pair qpn. It is called before the queue
	// pair enters RTR, and before the REP is sent.
	attach(qpn uint32) error
	// send sends a message. It returns verbs.ErrPeerGone if the peer has closed the
	// connection.
	send(m message) error
	// usesDatagrams reports whether the messages are datagrams of the wire path.
	usesDatagrams() bool
	// peerVanished reports to the queue pair that the peer has gone without a DREQ.
	peerVanished()
	// awaitsNotices reports whether the queue pair waits for notices that the peer has sent
	// before its DREQ; see Engine.AwaitsNotices.
	awaitsNotices() bool
	// credentials returns the credentials of the peer's process, or false if they are
	// not known.
	credentials() (cm.Credentials, bool)
	// stopDelivery ends the delivery of messages to the ID. Messages can still be sent.
	stopDelivery()
	// move moves the connection to another channel. Both channels are locked.
	move(to *channel) error
	// close closes the connection, and detaches the queue pair. It sends no message.
	close()
}

// A listener passes requests to id.incoming. Its methods are called with the channel
// locked, and do not block.
type listener interface {
	// setAccepting starts or stops accepting requests. While it is stopped, requests on
	// the local path wait. REQs on the wire path are dropped.
	setAccepting(accept bool)
	// serves returns the addresses of the listener. An address that could not be opened
	// has an error.
	serves() []cm.ServedAddr
	move(to *channel) error
	close()
}

// userRefused returns a *cm.UserError with the user of this process if the parameter
// refused is true, and otherwise nil.
func userRefused(refused bool) error {
	if !refused {
		return nil
	}
	return &cm.UserError{UID: uint32(os.Geteuid())}
}
