package cm

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// PortSpace is the kind of service that an ID is for. Each port space has its own port
// numbers. They have nothing to do with the port numbers of sockets.
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

// QPType returns the type of the queue pairs of the port space: UD for UDP, and RC for all
// others.
func (ps PortSpace) QPType() verbs.QPType {
	if ps == UDP {
		return verbs.QPTypeUD
	}
	return verbs.QPTypeRC
}

// DefaultQKey is the Q_Key of UD queue pairs that are created on an ID (RDMA_UDP_QKEY).
const DefaultQKey = 0x01234567

// ConnParam has the parameters of this side for Connect or Accept. Nil means the zero
// ConnParam. Source: rdma_connect(3), rdma_accept(3).
//
// Some fields are counts. A count of zero means the usual number. In Connect the usual
// number is the largest possible one. In Accept it is the number in the request, lowered
// to the device's limit. To ask for zero, use a negative count. A count that is too
// large causes a *verbs.ParamError.
type ConnParam struct {
	// PrivateData is sent to the peer. It is copied before the call returns.
	// MaxPrivateData is the limit. PrivateData may arrive padded with zeros
	// (rdma_accept(3)), so it should contain its own length or end with a byte other
	// than zero.
	PrivateData []byte

	// ResponderResources is how many READs and atomics of the peer this side serves at a
	// time. The limit is DeviceAttr.MaxQPRdAtom. Zero means the limit, but in Accept not
	// more than Event.Param.ResponderResources of the request, which the peer asks for. A
	// negative number means none. TCP only.
	ResponderResources int
	// InitiatorDepth is how many READs and atomics this side can have outstanding. The
	// limit is DeviceAttr.MaxQPInitRdAtom. In Accept, Event.Param.InitiatorDepth of the
	// request is a limit too: it is what the peer serves. Zero means the lower limit, and
	// a negative number means none. TCP only.
	InitiatorDepth int
	// FlowControl tells the peer that this side supports end-to-end flow control (IBTA
	// vol. 1, 9.7.7.2). With flow control, a peer waits for a receive buffer instead of
	// getting an RNR NAK. Accept does not copy FlowControl from the request; see
	// Event.Param. TCP only.
	FlowControl bool
	// RetryCount is how often a packet is repeated if it is not acknowledged, on both
	// sides. It is at most 7. Zero means 7, and a negative number means none. Accept
	// ignores RetryCount. TCP only.
	RetryCount int
	// RNRRetryCount is how often the peer repeats a message for which this side has no
	// receive buffer. It is at most 7, and 7 means no limit. In Connect zero means 7. In
	// Accept zero means the number in the request. A negative number means none. TCP
	// only.
	RNRRetryCount int

	// SRQ and QPNum describe a queue pair that was not created on the ID. SRQ is true if
	// this queue pair has a shared receive queue. QPNum is its 24-bit number. If the ID
	// has a queue pair, SRQ and QPNum are ignored.
	SRQ   bool
	QPNum uint32
	// QKey is the Q_Key of a queue pair that was not created on the ID. Zero means
	// DefaultQKey. UDP only.
	QKey uint32
}

// MessageParam has the parameters in a connection message. Here zero means zero. Source:
// rdma_get_cm_event(3).
//
// In an event, the counts are seen from the side that gets the event. So the peer's
// InitiatorDepth arrives as ResponderResources, and the peer's ResponderResources arrive
// as InitiatorDepth.
type MessageParam struct {
	// PrivateData is the private data of the message; see ConnParam.PrivateData.
	PrivateData []byte

	// ResponderResources is how many READs and atomics of the peer this side serves at a
	// time.
	ResponderResources uint8
	// InitiatorDepth is how many READs and atomics this side can have outstanding.
	InitiatorDepth uint8
	// FlowControl is true if the sender of the message supports end-to-end flow control.
	FlowControl bool
	// RetryCount is how often a packet is repeated if it is not acknowledged, on both
	// sides, 0 to 7. Only a connection request has it.
	RetryCount uint8
	// RNRRetryCount is how often the receiver of this connection message repeats a SEND
	// for which there is no receive buffer, 0 to 7. The number 7 means no limit.
	RNRRetryCount uint8

	SRQ   bool   // true if the sender's queue pair has a shared receive queue
	QPNum uint32 // number of the sender's queue pair
	// QKey is the sender's Q_Key in the answer to a datagram lookup. In an event it is
	// zero, and Event.UD has the Q_Key.
	QKey uint32
}

// ConnParam returns parameters for Connect or Accept with the counts and the flow control
// of p, without private data and without the fields of the queue pair. Accept returns an
// error if a count is above the limit of the device. In contrast, Accept(nil) lowers such
// a count.
func (p *MessageParam) ConnParam() *ConnParam {
	return &ConnParam{
		ResponderResources: exactCount(p.ResponderResources),
		InitiatorDepth:     exactCount(p.InitiatorDepth),
		FlowControl:        p.FlowControl,
		RetryCount:         exactCount(p.RetryCount),
		RNRRetryCount:      exactCount(p.RNRRetryCount),
	}
}

// exactCount converts a count for a ConnParam. Zero becomes -1, because zero means the
// usual number there.
func exactCount(n uint8) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// Message is a kind of connection message that carries private data.
type Message uint8

// Connection messages with private data.
const (
	MessageConnect    Message = iota // the message of ID.Connect
	MessageAccept                    // the message of ID.Accept
	MessageReject                    // the message of ID.Reject
	MessageDisconnect                // the message of ID.Disconnect
)

func (m Message) String() string {
	names := [...]string{"connect", "accept", "reject", "disconnect"}
	if int(m) < len(names) {
		return names[m]
	}
	return unknown("message", uint64(m))
}

// MaxPrivateData returns how many bytes of private data a message can carry. In the TCP
// port space that is 56 for connect, 196 for accept, 148 for reject and 220 for disconnect.
// In the UDP port space it is 180, 136, 136 and 0. An unknown message has 0, and an unknown
// port space counts as TCP. Source: rdma_connect(3), rdma_accept(3), rdma_reject(3); IBTA
// vol. 1, 12.6.10.
func MaxPrivateData(ps PortSpace, m Message) int {
	limits := [...]int{MessageConnect: 56, MessageAccept: 196, MessageReject: 148, MessageDisconnect: 220}
	if ps == UDP {
		limits = [...]int{MessageConnect: 180, MessageAccept: 136, MessageReject: 136, MessageDisconnect: 0}
	}
	if int(m) >= len(limits) {
		return 0
	}
	return limits[m]
}

// MaxTimeout is the longest timeout of ResolveAddr and ResolveRoute, about 25 days. In
// C, the timeout is an int of milliseconds. Source: rdma_resolve_addr(3),
// rdma_resolve_route(3).
const MaxTimeout = math.MaxInt32 * time.Millisecond

// invalid returns the error of an argument that breaks a rule. The reason names the
// rule.
func invalid(field string, value int, reason string) error {
	return &verbs.ParamError{Field: field, Value: int64(value), Reason: reason}
}

// missing returns the error of an argument that is nil.
func missing(field string) error {
	return &verbs.ParamError{Field: field, NotNumber: true, Reason: "missing"}
}

// badAddr returns the error of an address. The text is "ADDRESS is REASON".
func badAddr(field string, addr netip.Addr, reason string) error {
	return &verbs.ParamError{Field: field, NotNumber: true, Reason: addr.String() + " is " + reason}
}

func checkPortSpace(ps PortSpace) error {
	if ps != TCP && ps != UDP {
		return invalid("port space", int(ps), "neither TCP nor UDP")
	}
	return nil
}

func checkPrivateData(ps PortSpace, m Message, data []byte) error {
	return operr.CheckRange("private data length", len(data), 0, MaxPrivateData(ps, m))
}

func checkTimeout(d time.Duration) error { return operr.CheckRange("timeout", d, 1, MaxTimeout) }

// family returns the IP version of an address: 4, 6, or 0 for the zero Addr.
func family(a netip.Addr) int {
	switch {
	case a.Is4():
		return 4
	case a.Is6():
		return 6
	}
	return 0
}

// unmap converts an IPv4-mapped IPv6 address to IPv4.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// errNoAddr reports a zero netip.Addr.
var errNoAddr = &verbs.ParamError{Field: "address", NotNumber: true, Reason: "missing, or not valid"}

// checkLocal checks an address for Bind. Wildcards are allowed.
func checkLocal(addr netip.AddrPort) error {
	if !addr.Addr().IsValid() {
		return errNoAddr
	}
	if addr.Addr().IsMulticast() {
		return badAddr("address", addr.Addr(), "a multicast address, to which an ID can not be bound")
	}
	return nil
}

// checkRemote checks the addresses of ResolveAddr. A zero src is allowed.
func checkRemote(ps PortSpace, src, dst netip.AddrPort) error {
	want := family(dst.Addr())
	switch {
	case want == 0:
		return errNoAddr
	case dst.Addr().IsUnspecified():
		return badAddr("destination", dst.Addr(), "the wildcard address, which is not a destination")
	case ps == TCP && dst.Addr().IsMulticast():
		return badAddr("destination", dst.Addr(), "a multicast address, to which no connection is possible")
	case src == netip.AddrPort{}:
		return nil
	case family(src.Addr()) != want:
		return badAddr("source", src.Addr(), "not of the family of the destination, "+dst.Addr().String())
	}
	return checkLocal(src)
}

// checkQP checks the arguments of CreateQP, except the sizes in attr.Caps. The device
// checks the sizes.
func checkQP(ps PortSpace, dev verbs.Device, pd verbs.PD, attr *verbs.QPInitAttr) error {
	switch {
	case pd == nil:
		return missing("protection domain")
	case attr == nil:
		return missing("attributes")
	case attr.SendCQ == nil:
		return missing("send CQ")
	case attr.RecvCQ == nil:
		return missing("receive CQ")
	case attr.Type != ps.QPType():
		return &verbs.ParamError{Field: "QP type", Value: int64(attr.Type), Limit: int64(ps.QPType()), Reason: "not the type of the port space"}
	case pd.Device() != dev:
		return fmt.Errorf("%w: the protection domain is of another device", verbs.ErrForeign)
	}
	return nil
}
