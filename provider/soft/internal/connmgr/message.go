//go:build linux

package connmgr

import (
	"net/netip"
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message is one message of connection management, independent of the path that it is
// sent on. It is one of the pointer types below. The fields describe the sender: for
// example, qpn is the sender's queue pair number. Source: IBTA vol. 1, 12.6 and 12.11.
type message interface{ kind() messageKind }

// messageKind is the type of a message. Its value is the attribute of the message's MAD
// minus 0x10 (IBTA vol. 1, 16.7.2).
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
	initiatorDepth     uint8 // number of READs and atomics that the queue pair has in flight at most
	rnrRetry           uint8 // RNR retry count for the other side's queue pair, 3 bits
	flowControl        bool  // true if the queue pair advertises its receive buffers; ignored if srq is true
}

// reqMsg (REQ) requests a connection.
type reqMsg struct {
	endpoints
	qpParams
	retry   uint8 // retry count for both queue pairs, 3 bits
	private []byte

	// mtu, ackTimeout and tos are used on the wire path only. ackTimeout is the ACK
	// timeout for the queue pair of the passive side, a code of 5 bits.
	mtu        verbs.MTU
	ackTimeout uint8
	tos        uint8
}

// repMsg (REP) accepts a connection request.
type repMsg struct {
	qpParams
	private []byte

	// ackDelay is the time that the device of the sender takes to acknowledge a request,
	// as a code of 5 bits. It is set in a REP that was received on the wire path, and 0 in
	// all others. encodeREP takes the delay from the attributes of this device.
	ackDelay uint8
}

// rtuMsg (RTU, ready to use) confirms a REP.
type rtuMsg struct{}

// rejMsg (REJ) refuses a REQ or a REP, or cancels a REQ.
type rejMsg struct {
	reason        cm.RejectReason
	byApplication bool   // true if the application of the sender has refused
	private       []byte // private data of the sender's application
	// cause is additional information for the application of this side. It is not sent.
	cause error

	// userRefused is used on the local path. It is true if the sender refuses the
	// receiver of this message because the user who runs the receiver is not allowed.
	userRefused bool
}

// dreqMsg (DREQ) asks the peer to disconnect.
type dreqMsg struct{}

// drepMsg (DREP) confirms a DREQ.
type drepMsg struct{}

// sidrReqMsg (SIDR_REQ) is a lookup: it asks for the queue pair number and the Q_Key of
// a UD service.
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

	// userRefused is used on the local path. It is true if the sender refuses the
	// receiver of this message because the user who runs the receiver is not allowed.
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

// A cmConn exchanges the messages of one ID with the peer, and prepares the data path of
// the queue pair. It passes each received message to id.deliver. If no more messages can
// arrive, it calls id.peerGone. The methods of the interface are called with the lock of
// the ID's channel held. So they do not block, and they do not call methods of the ID.
type cmConn interface {
	// attach prepares the data path of the local queue pair qpn. It is called before the
	// queue pair goes to RTR, and before the REP is sent.
	attach(qpn uint32) error
	// send sends a message. It returns verbs.ErrPeerGone if the peer has closed the
	// connection.
	send(m message) error
	// usesDatagrams reports whether the messages are datagrams of the wire path.
	usesDatagrams() bool
	// peerVanished reports to the queue pair that the peer has gone without a DREQ.
	peerVanished()
	// credentials returns the credentials of the process at the other end. It returns
	// false if they are not known.
	credentials() (cm.Credentials, bool)
	// stopDelivery ends the delivery of messages to the ID. Messages can still be sent.
	stopDelivery()
	// move moves the connection to another channel. The caller holds the locks of both
	// channels.
	move(to *channel) error
	// close closes the connection without sending a message, and detaches the queue
	// pair.
	close()
}

// A listener passes the requests for a listening ID to id.incoming. The methods of the
// interface are called with the lock of the ID's channel held. So they do not block, and
// they do not call methods of the ID.
type listener interface {
	// setAccepting starts or stops the acceptance of connection requests. While it is
	// stopped, requests wait on the local path and are dropped on the wire path.
	setAccepting(accept bool)
	// serves returns the addresses that the listener serves, and the addresses that it
	// fails to serve.
	serves() []cm.ServedAddr
	move(to *channel) error
	close()
}

// userRefused returns the error for a refusal by the peer. The parameter refused is true
// if the peer has refused this process because of the user who runs it. Then the error
// is a *cm.UserError with this user. Otherwise userRefused returns nil.
func userRefused(refused bool) error {
	if !refused {
		return nil
	}
	return &cm.UserError{UID: uint32(os.Geteuid())}
}
