package verbs

import (
	"encoding/hex"
	"net/netip"
)

// A Device is one RDMA device, opened. Its methods may be called from any
// goroutine. One that counts what happens to it is a CounterReader, too.
type Device interface {
	// Name is the device's name, unique within its provider ("soft0", "mlx5_0").
	Name() string
	// Caps tells what the device can do. The answer does not change.
	Caps() Caps
	// Attr returns identity and limits. The answer does not change.
	Attr() DeviceAttr
	// Port returns the present state of a port; ports count from 1. The slice
	// in it is the caller's. Source: ibv_query_port(3).
	Port(num uint8) (PortAttr, error)

	// AllocPD makes a protection domain. Source: ibv_alloc_pd(3).
	AllocPD() (PD, error)
	// CreateCompChannel makes a completion channel; nil attr means defaults.
	// Source: ibv_create_comp_channel(3).
	CreateCompChannel(attr *CompChannelAttr) (CompChannel, error)
	// CreateCQ makes a completion queue. Source: ibv_create_cq(3).
	CreateCQ(attr *CQAttr) (CQ, error)

	// AsyncFD is a descriptor that is readable while NextAsync has an event.
	// It belongs to the device: never read, write or close it.
	AsyncFD() int
	// NextAsync stores the oldest asynchronous event in ev and reports true, or reports
	// false when there is none. It never blocks. No event is lost, but waiting events of
	// the same type about the same object are merged into one. Events about a closed
	// object are dropped. Source: ibv_get_async_event(3).
	NextAsync(ev *AsyncEvent) (ok bool, err error)
}

// DeviceAttr is a device's identity and its limits. Source: ibv_query_device(3).
type DeviceAttr struct {
	NodeGUID uint64
	Vendor   string
	Firmware string

	NumPorts       int
	NumCompVectors int // completion vectors; the soft device has a shard for each

	MaxQP           int
	MaxQPWR         int // work requests on one queue
	MaxSGE          int // scatter/gather entries of one work request
	MaxInline       int // bytes of inline data
	MaxCQ           int
	MaxCQE          int // completions of one CQ
	MaxMR           int
	MaxMRSize       uint64 // bytes
	MaxPD           int
	MaxAH           int
	MaxSRQ          int
	MaxSRQWR        int
	MaxSRQSGE       int
	MaxQPRdAtom     uint8 // READs and atomics a QP can serve at a time (responder resources)
	MaxQPInitRdAtom uint8 // READs and atomics a QP can have outstanding (initiator depth)

	// LocalCAAckDelay is the code c of the time a device may take to answer:
	// 4.096 µs * 2^c.
	LocalCAAckDelay uint8
}

// PortAttr is the state of one port. Source: ibv_query_port(3).
type PortAttr struct {
	State      PortState
	MaxMTU     MTU
	ActiveMTU  MTU
	MaxMsgSize uint32 // bytes of one message
	GIDs       []GID  // the addresses of the port; an address handle names its source by index
}

// PortState is the logical state of a port.
type PortState uint8

// Port states, numbered as enum ibv_port_state.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
)

func (s PortState) String() string {
	names := [...]string{"nop", "down", "init", "armed", "active"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("port state", uint64(s))
}

// MTU is the code of a path MTU, as it travels in connection requests.
type MTU uint8

// MTU codes, numbered as enum ibv_mtu.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes is the size in bytes, or 0 for a code that does not exist.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// A GID is a port's address. On RoCEv2 it is the IPv6 address, or the IPv4
// address mapped as ::ffff:a.b.c.d (IBTA annex A17).
type GID [16]byte

// GIDFromAddr is the GID of an IP address; a zone is dropped.
func GIDFromAddr(a netip.Addr) GID { return a.As16() }

// Addr is the IP address of a RoCEv2 GID; a mapped IPv4 address is unmapped.
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

// An AsyncEvent is something that happened to a device or to one of its
// objects without being asked for. Source: ibv_get_async_event(3).
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // for port events
	QP   QP    // for QP events, else nil
	CQ   CQ    // for CQ events, else nil
	SRQ  SRQ   // for SRQ events, else nil
}

// AsyncEventType names an asynchronous event.
type AsyncEventType uint8

// Asynchronous events, numbered as enum ibv_event_type. Values not named here
// are passed through.
const (
	AsyncCQError        AsyncEventType = 0
	AsyncQPFatal        AsyncEventType = 1
	AsyncQPRequestError AsyncEventType = 2
	AsyncQPAccessError  AsyncEventType = 3
	AsyncCommEst        AsyncEventType = 4
	AsyncSQDrained      AsyncEventType = 5
	AsyncDeviceFatal    AsyncEventType = 8
	AsyncPortActive     AsyncEventType = 9
	AsyncPortError      AsyncEventType = 10
	AsyncSRQError       AsyncEventType = 14
	AsyncSRQLimit       AsyncEventType = 15
	AsyncQPLastWQE      AsyncEventType = 16
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
