//go:build linux

package soft

import (
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A message is one message of connection management, as the state machine of an
// ID knows it: one of the pointer types below. How it travels is the carrier's
// concern. The fields are from the sender's point of view, as on the wire.
// Source: IBTA vol. 1, 12.6 and 12.11.
type message interface{ kind() messageKind }

// messageKind numbers the messages: the MAD attribute less 0x10 (IBTA vol. 1,
// 16.7.2).
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

// endpoints are the addresses that a request names.
type endpoints struct {
	src, dst netip.AddrPort
}

// side is what one side tells of its queue pair.
type qpParams struct {
	qpn uint32 // 24 bits
	psn uint32 // the first it expects, 24 bits
	srq bool

	responderResources uint8 // READs and atomics it serves
	initiatorDepth     uint8 // READs and atomics it has outstanding
	rnrRetry           uint8 // for the other side's queue pair, 3 bits
	flowControl        bool
}

// reqMsg (REQ) asks for a connection.
type reqMsg struct {
	endpoints
	qpParams
	retry   uint8 // for both queue pairs, 3 bits
	private []byte

	// What the local path has no use for: of the path, and of the queue pair
	// that is asked for.
	mtu        verbs.MTU
	ackTimeout uint8 // code of 5 bits
	tos        uint8
}

// repMsg (REP) accepts one.
type repMsg struct {
	qpParams
	private []byte

	// ackDelay is how long the device takes to acknowledge a request, as a code of 5
	// bits. It is 0 on the local path, where both sides are this kind of device.
	ackDelay uint8
}

// rtuMsg (RTU) says that the reply arrived.
type rtuMsg struct{}

// rejMsg (REJ) refuses a request or a reply.
type rejMsg struct {
	reason        cm.RejectReason
	byApplication bool
	private       []byte
	cause         error // additional cause that this side knows; it is not sent

	user bool // on the local path: the user of the other process was not allowed
}

// dreqMsg (DREQ) ends a connection.
type dreqMsg struct{}

// drepMsg (DREP) answers it.
type drepMsg struct{}

// sidrReqMsg (SIDR_REQ) asks for a datagram queue pair.
type sidrReqMsg struct {
	endpoints
	private []byte
}

// sidrRepMsg (SIDR_REP) names it, or refuses.
type sidrRepMsg struct {
	status        cm.SIDRStatus
	qpn           uint32 // 24 bits
	qkey          uint32
	byApplication bool
	private       []byte

	user bool // like rejMsg.user
}

func (*reqMsg) kind() messageKind     { return kindREQ }
func (*repMsg) kind() messageKind     { return kindREP }
func (*rtuMsg) kind() messageKind     { return kindRTU }
func (*rejMsg) kind() messageKind     { return kindREJ }
func (*dreqMsg) kind() messageKind    { return kindDREQ }
func (*drepMsg) kind() messageKind    { return kindDREP }
func (*sidrReqMsg) kind() messageKind { return kindSIDRREQ }
func (*sidrRepMsg) kind() messageKind { return kindSIDRREP }

// A carrier takes the messages of one ID to its peer, and its data path to the
// queue pair. What arrives it hands to id.deliver, and that nothing will arrive
// any more to id.lost. Its methods are called with the lock of the ID's channel
// held; they neither block nor call back.
type cmConn interface {
	// attach readies the data path of the local queue pair qpn. It comes
	// before the queue pair goes to RTR, and before a reply is sent.
	attach(qpn uint32) error
	// send sends a message, or returns verbs.ErrPeerGone.
	send(m message) error
	// peerVanished tells the queue pair that the peer went without a word.
	peerVanished()
	// credentials returns the credentials of the process at the other end, if they are
	// known.
	credentials() (cm.Credentials, bool)
	// mute ends what is delivered; sending goes on.
	stopDelivery()
	// move goes over to another channel, whose lock is held as well.
	move(to *channel) error
	// close detaches the queue pair and ends the carrier, without a word.
	close()
}

// A gate lets requests in, for an ID that listens: it hands each to id.incoming.
// Calls as for a carrier.
type listener interface {
	// admit says whether requests are taken now, or left to wait.
	setAccepting(yes bool)
	// serves returns the addresses at which the gate takes requests, and those at which
	// it should and can not.
	serves() []cm.ServedAddr
	move(to *channel) error
	close()
}
