package verbs

import (
	"encoding/hex"
	"net/netip"
)

// A Device is one open RDMA device. Any goroutine may call its methods. A device that
// has counters is a CounterReader too.
type Device interface {
	// Name returns the device's name, which is unique within its provider ("soft0",
	// "mlx5_0").
	Name() string
	// Caps returns the optional abilities of the device. The result never changes.
	Caps() Caps
	// Attr returns the identity and the limits of the device. The result never changes.
	// Source: ibv_query_device(3).
	Attr() DeviceAttr
	// Port returns the current state of a port, numbered from 1. Another number is a
	// *ParamError. The caller owns the slice in the result. Source: ibv_query_port(3).
	Port(num uint8) (PortAttr, error)

	// AllocPD creates a protection domain. Source: ibv_alloc_pd(3).
	AllocPD() (PD, error)
	// CreateCompChannel creates a completion channel. A nil attr means the zero value.
	// The device does not keep attr. With ProgressManual, the error for a second channel
	// of a vector is ErrBusy. Source: ibv_create_comp_channel(3).
	CreateCompChannel(attr *CompChannelAttr) (CompChannel, error)
	// CreateCQ creates a completion queue. The device does not keep attr, which must not
	// be nil. Source: ibv_create_cq(3).
	CreateCQ(attr *CQAttr) (CQ, error)

	// AsyncFD returns a descriptor that is readable while NextAsync has an event. The
	// device owns the descriptor: callers never read, write or close it.
	AsyncFD() int
	// NextAsync stores the oldest asynchronous event in ev. If there is no event, ok is
	// false. NextAsync never blocks. After an error the events can not be read any more.
	//
	// The device drops a waiting event when the object of the event is closed, or has a
	// new event of the same type. Source: ibv_get_async_event(3).
	NextAsync(ev *AsyncEvent) (ok bool, err error)
}

// DeviceAttr has the identity and the limits of a device. The fields that begin with Max
// are the largest allowed values. Source: ibv_query_device(3).
type DeviceAttr struct {
	NodeGUID uint64 // EUI-64 of the device, in host order
	Vendor   string // the vendor, as the driver reports it
	Firmware string // version of the firmware or of the software

	NumPorts       int
	NumCompVectors int // number of completion vectors; see CQAttr.Vector

	MaxQP           int    // number of queue pairs
	MaxQPWR         int    // number of work requests on one queue
	MaxSGE          int    // number of scatter/gather entries of one work request
	MaxInline       int    // inline data of one work request, in bytes
	MaxCQ           int    // number of completion queues
	MaxCQE          int    // number of completions that one CQ can hold
	MaxMR           int    // number of memory regions
	MaxMRSize       uint64 // size of one memory region, in bytes
	MaxPD           int    // number of protection domains
	MaxAH           int    // number of address handles
	MaxSRQ          int    // number of shared receive queues
	MaxSRQWR        int    // number of work requests on one SRQ
	MaxSRQSGE       int    // number of scatter/gather entries of one work request on an SRQ
	MaxQPRdAtom     uint8  // number of READs and atomics that a QP can serve at a time (responder resources)
	MaxQPInitRdAtom uint8  // number of READs and atomics that a QP can have outstanding (initiator depth)

	// LocalCAAckDelay is the code, from 0 to 31, of the longest time that the device
	// needs to acknowledge a packet. Code c means 4.096 µs * 2^c.
	LocalCAAckDelay uint8
}

// PortAttr has the state of one port. Source: ibv_query_port(3).
type PortAttr struct {
	State      PortState // logical state of the port
	MaxMTU     MTU       // largest MTU that the port supports
	ActiveMTU  MTU       // MTU that the port uses now
	MaxMsgSize uint32    // length of the longest message in bytes
	GIDs       []GID     // addresses of the port; AHAttr.SourceIndex is an index into GIDs
}

// PortState is the logical state of a port.
type PortState uint8

// Port states, numbered as enum ibv_port_state.
const (
	PortNop    PortState = iota // no state; reserved
	PortDown                    // the link is down
	PortInit                    // the link is up and not configured
	PortArmed                   // the link is configured and not active
	PortActive                  // the port can send and receive
)

func (s PortState) String() string {
	names := [...]string{"nop", "down", "init", "armed", "active"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("port state", uint64(s))
}

// MTU is the code of a path MTU. Connection requests carry the same codes.
type MTU uint8

// MTU codes, numbered as enum ibv_mtu.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes returns the MTU in bytes, or 0 for a code that does not exist.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// A GID is the address of a port. On RoCEv2 it is an IPv6 address, or an IPv4 address as
// ::ffff:a.b.c.d (IBTA annex A17).
type GID [16]byte

// GIDFromAddr returns the GID of an IP address. A zone is dropped.
func GIDFromAddr(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address of a RoCEv2 GID. For a mapped IPv4 address it returns the
// IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

func (g GID) String() string {
	var dst [39]byte
	for i := range 8 {
		if i > 0 {
			dst[i*5-1] = ':'
		}
		hex.Encode(dst[i*5:], g[2*i:2*i+2])
	}
	return string(dst[:])
}

// An AsyncEvent reports a change that no call caused. What has changed is a device or one
// of the device's objects. Source: ibv_get_async_event(3).
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // number of the port for port events; 0 for other events
	QP   QP    // queue pair for QP events; nil for other events
	CQ   CQ    // completion queue for CQ events; nil for other events
	SRQ  SRQ   // shared receive queue for SRQ events; nil for other events
}

// AsyncEventType is the type of an asynchronous event.
type AsyncEventType uint8

// Types of asynchronous events, numbered as enum ibv_event_type. A provider may report
// other values of that enum, which have no name in this package.
const (
	AsyncCQError        AsyncEventType = 0  // a CQ was overrun or failed
	AsyncQPFatal        AsyncEventType = 1  // a QP failed and is in the error state
	AsyncQPRequestError AsyncEventType = 2  // a QP received an invalid request
	AsyncQPAccessError  AsyncEventType = 3  // a QP received a request that violates its access rights
	AsyncCommEst        AsyncEventType = 4  // a QP in RTR received its first message
	AsyncSQDrained      AsyncEventType = 5  // a send queue in SQD is drained
	AsyncDeviceFatal    AsyncEventType = 8  // the device failed
	AsyncPortActive     AsyncEventType = 9  // a port became active
	AsyncPortError      AsyncEventType = 10 // a port became inactive
	AsyncSRQError       AsyncEventType = 14 // an SRQ failed
	AsyncSRQLimit       AsyncEventType = 15 // an SRQ has fewer buffers than the limit in SRQ.Arm
	AsyncQPLastWQE      AsyncEventType = 16 // a QP in the error state has consumed its last buffer from an SRQ
)

func (t AsyncEventType) String() string {
	switch t {
	case AsyncCQError:
		return "CQ error"
	case AsyncQPFatal:
		return "QP fatal"
	case AsyncQPRequestError:
		return "QP request error"
	case AsyncQPAccessError:
		return "QP access error"
	case AsyncCommEst:
		return "communication established"
	case AsyncSQDrained:
		return "send queue drained"
	case AsyncDeviceFatal:
		return "device fatal"
	case AsyncPortActive:
		return "port active"
	case AsyncPortError:
		return "port error"
	case AsyncSRQError:
		return "SRQ error"
	case AsyncSRQLimit:
		return "SRQ limit reached"
	case AsyncQPLastWQE:
		return "last WQE reached"
	}
	return unknown("asynchronous event", uint64(t))
}
