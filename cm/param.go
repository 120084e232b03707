package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// PortSpace is the kind of service that an ID is for. A port in one port space is
// unrelated to the same port in the other, and to the ports of TCP and UDP sockets.
type PortSpace uint16

// Port spaces, numbered as enum rdma_port_space.
const (
	TCP PortSpace = 0x0106 // reliable connections (RC)
	UDP PortSpace = 0x0111 // lookup of datagram queue pairs (UD)
)

func (ps PortSpace) String() string {
	switch ps {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return unknown("port space", uint64(ps))
}

// QPType returns the type of the queue pairs of the port space.
func (ps PortSpace) QPType() verbs.QPType {
	if ps == UDP {
		return verbs.QPTypeUD
	}
	return verbs.QPTypeRC
}

// DepthMax, as ResponderResources or InitiatorDepth, means the largest value: in Connect
// the device's maximum, in Accept the value of the request, lowered to the device's
// maximum (RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH).
const DepthMax = 255

// DefaultQKey is the Q_Key of UD queue pairs that are created on an ID (RDMA_UDP_QKEY).
const DefaultQKey = 0x01234567

// ConnParam has the parameters of a connection. A nil *ConnParam means the defaults of
// Connect or Accept. The fields have no defaults: a ConnParam with only PrivateData
// means no retries, no READs and no atomics.
//
// In an event the parameters are from the receiver's point of view: the peer's initiator
// depth arrives as ResponderResources, and its responder resources as InitiatorDepth.
// Source: rdma_connect(3), rdma_accept(3).
type ConnParam struct {
	// PrivateData is sent to the peer: at most 56 bytes with Connect and 196 with Accept
	// in the TCP port space, 180 and 136 in the UDP port space. It is copied before the
	// call returns. On the local path of the soft device it arrives unchanged. Otherwise
	// it arrives padded with zeros to the limit (rdma_accept(3)), so it should contain
	// its length or end with a byte that is not zero.
	PrivateData []byte

	// ResponderResources is the number of READs and atomics of the peer that this side
	// serves at a time, at most DeviceAttr.MaxQPRdAtom, or DepthMax. TCP only.
	ResponderResources uint8
	// InitiatorDepth is the number of READs and atomics that this side has outstanding,
	// at most DeviceAttr.MaxQPInitRdAtom, or DepthMax. With Accept it is at most the
	// InitiatorDepth of the request. TCP only.
	InitiatorDepth uint8
	// FlowControl announces end-to-end flow control, if the device has it: this side
	// then tells the peer how many receive buffers it has, and a peer waits when there
	// are none instead of sending and getting an RNR NAK (IBTA vol. 1, 9.7.7.2). TCP
	// only.
	FlowControl bool
	// RetryCount is the number of retries after a missing acknowledgement, 0 to 7, for
	// both sides. Connect sets it, Accept ignores it. TCP only.
	RetryCount uint8
	// RNRRetryCount is the number of retries of the peer when this side has no receive
	// buffer posted, 0 to 7; 7 means no limit. TCP only.
	RNRRetryCount uint8

	// SRQ and QPNum describe a queue pair that was not created on the ID. They are
	// ignored if the ID has a queue pair.
	SRQ   bool
	QPNum uint32
	// QKey is the Q_Key of a queue pair that was not created on the ID; zero means
	// DefaultQKey. UDP only.
	QKey uint32
}

// Message is a kind of connection message that carries private data.
type Message uint8

// Connection messages with private data.
const (
	MessageConnect Message = iota // the message of ID.Connect
	MessageAccept                 // the message of ID.Accept
	MessageReject                 // the message of ID.Reject
)

func (m Message) String() string {
	names := [...]string{"connect", "accept", "reject"}
	if int(m) < len(names) {
		return names[m]
	}
	return unknown("message", uint64(m))
}

// MaxPrivateData returns the number of bytes of private data that a message can carry:
// 56, 196 and 148 for connect, accept and reject in the TCP port space, 180, 136 and 136
// in the UDP port space. It returns 0 for a message that does not exist. Source:
// rdma_connect(3), rdma_accept(3), rdma_reject(3). The limits for connect are 36 bytes
// less than the message's field, because the field begins with the header of IBTA annex
// A11.
func MaxPrivateData(ps PortSpace, m Message) int {
	limits := [...]int{MessageConnect: 56, MessageAccept: 196, MessageReject: 148}
	if ps == UDP {
		limits = [...]int{MessageConnect: 180, MessageAccept: 136, MessageReject: 136}
	}
	if int(m) >= len(limits) {
		return 0
	}
	return limits[m]
}
