package cm

import "github.com/rdmaloop/rdmaloop/verbs"

// PortSpace says what an ID is for. Ports of different spaces are unrelated,
// and have nothing to do with those of TCP and UDP sockets.
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

// QPType is the type of queue pair that goes with the port space.
func (ps PortSpace) QPType() verbs.QPType {
	if ps == UDP {
		return verbs.QPTypeUD
	}
	return verbs.QPTypeRC
}

// DepthMax as ResponderResources or InitiatorDepth means as much as possible:
// in Connect the device's maximum, in Accept the request's value lowered to it
// (RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH).
const DepthMax = 255

// DefaultQKey is the Q_Key of UD queue pairs made on an ID (RDMA_UDP_QKEY).
const DefaultQKey = 0x01234567

// ConnParam are the parameters of a connection. They have no defaults but nil,
// where Connect and Accept name what it means: with one made for its PrivateData
// alone there are no retries, no READs and no atomics.
//
// In an event they are from the receiver's point of view: what the peer set as
// its initiator depth arrives as ResponderResources and the other way round.
// Source: rdma_connect(3), rdma_accept(3).
type ConnParam struct {
	// PrivateData goes to the peer: at most 56 bytes with Connect and 196 with
	// Accept in the TCP port space, 180 and 136 in UDP. It is copied before
	// the call returns. It arrives as it is, or, from all but the local path of
	// the soft device, padded with zeros to the limit (rdma_accept(3)): say
	// inside how long it is, or end it with something that is not zero.
	PrivateData []byte

	// ResponderResources is how many READs and atomics of the peer this side
	// serves at a time, at most DeviceAttr.MaxQPRdAtom or DepthMax. TCP only.
	ResponderResources uint8
	// InitiatorDepth is how many READs and atomics this side has outstanding,
	// at most DeviceAttr.MaxQPInitRdAtom, and with Accept at most what the
	// request has here; or DepthMax. TCP only.
	InitiatorDepth uint8
	// FlowControl tells the peer that hardware flow control is available, as
	// far as the device has it: this side then tells how many receive buffers
	// it has, and a peer that has none left waits rather than being turned
	// away (IBTA vol. 1, 9.7.7.2). TCP only.
	FlowControl bool
	// RetryCount is how often both sides retry without an answer, 0 to 7. Set
	// by Connect, ignored by Accept. TCP only.
	RetryCount uint8
	// RNRRetryCount is how often the peer retries when this side has no
	// receive buffer posted, 0 to 7; 7 means without end. TCP only.
	RNRRetryCount uint8

	// SRQ and QPNum describe a queue pair that was not made on the ID; they
	// are ignored when the ID has one.
	SRQ   bool
	QPNum uint32
	// QKey is the Q_Key of such a queue pair; zero means DefaultQKey. UDP only.
	QKey uint32
}

// Message is a kind of message that carries private data.
type Message uint8

// Messages with private data.
const (
	MessageConnect Message = iota
	MessageAccept
	MessageReject
)

func (m Message) String() string {
	names := [...]string{"connect", "accept", "reject"}
	if int(m) < len(names) {
		return names[m]
	}
	return unknown("message", uint64(m))
}

// MaxPrivateData is how many bytes of private data a message can carry: 56, 196
// and 148 for connect, accept and reject in the TCP port space; 180, 136 and 136
// in UDP. Source: rdma_connect(3), rdma_accept(3), rdma_reject(3); the first is
// what the REQ has beside the 36-byte header of IBTA annex A11.
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
