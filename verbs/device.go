package verbs

import (
	"encoding/hex"
	"net/netip"
)

// A Device is one open RDMA device. Any goroutine may call the methods of a Device.
type Device interface {
	// Name returns the device's name, such as "soft0" or "mlx5_0". No other device of
	// the same provider has this name. Source: ibv_get_device_name(3).
	Name() string
	// Caps returns the optional abilities of the device, which never change.
	Caps() Caps
	// Attr returns the identity and the limits of the device, which never change. Source:
	// ibv_query_device(3).
	Attr() DeviceAttr
	// Port returns the current state of a port. Ports are numbered from 1. If the port
	// does not exist, the error is a *ParamError. The caller owns the slice in the
	// result. Source: ibv_query_port(3).
	Port(num uint8) (PortAttr, error)
	// Counters returns the counters of a port, sorted by name. Counters reads one value
	// after another, so the values are not from the same instant. The caller owns the
	// returned slice.
	//
	// Linux shows counters with the same names in sysfs, under ports/N/hw_counters.
	//
	// If the port does not exist, the error is a *ParamError. If the driver has no
	// counters, the error is a *FeatureError.
	Counters(port uint8) ([]Counter, error)

	// AllocPD creates a protection domain. Source: ibv_alloc_pd(3).
	AllocPD() (PD, error)
	// CreateCompChannel creates a completion channel. A nil attr means the zero value of
	// CompChannelAttr. The device does not use attr after the call. With ProgressManual
	// each completion vector has at most one channel. For a second channel the error is
	// ErrBusy. Source: ibv_create_comp_channel(3).
	CreateCompChannel(attr *CompChannelAttr) (CompChannel, error)
	// CreateCQ creates a completion queue. The attr must not be nil. The device does not
	// use attr after the call. Source: ibv_create_cq(3).
	CreateCQ(attr *CQAttr) (CQ, error)

	// AsyncFD returns a descriptor that is readable while the device has an asynchronous
	// event; see NextAsync. The device owns the descriptor: callers never read, write or
	// close it.
	AsyncFD() int
	// NextAsync stores the oldest asynchronous event in ev. If there is no event, ok is
	// false. NextAsync never blocks. The caller acknowledges nothing. After NextAsync has
	// returned an error, no more events can be read.
	//
	// The device drops an unread event in two cases: when the object of the event is
	// closed, and when the same object has a newer event of the same type. Source:
	// ibv_get_async_event(3).
	NextAsync(ev *AsyncEvent) (ok bool, err error)
}

// DeviceAttr has the identity and the limits of a device. Each field whose name begins
// with Max is a largest allowed value. Source: ibv_query_device(3).
type DeviceAttr struct {
	NodeGUID uint64 // EUI-64 identifier of the device, in host byte order
	Vendor   string // name or number of the vendor, as the driver reports it
	Firmware string // version of the firmware or of the software

	NumPorts       int
	NumCompVectors int // number of completion vectors; see CQAttr.Vector

	MaxQP     int    // number of queue pairs
	MaxQPWR   int    // number of work requests outstanding on one queue
	MaxSGE    int    // number of scatter/gather entries of one work request
	MaxInline int    // number of bytes of inline data in one work request
	MaxCQ     int    // number of completion queues
	MaxCQE    int    // number of completions that one CQ can hold
	MaxMR     int    // number of memory regions
	MaxMRSize uint64 // size of one memory region, in bytes
	MaxMW     int    // number of memory windows; 0 if Caps.MemoryWindows is false
	MaxPD     int    // number of protection domains
	MaxAH     int    // number of address handles
	MaxSRQ    int    // number of shared receive queues
	MaxSRQWR  int    // number of work requests outstanding on one SRQ
	// MaxSRQSGE is the number of scatter/gather entries of one work request on an SRQ.
	MaxSRQSGE int
	// MaxQPRdAtom is the number of READs and atomics of the peer that a QP executes at a
	// time (responder resources).
	MaxQPRdAtom uint8
	// MaxQPInitRdAtom is the number of READs and atomics that a QP can have outstanding
	// (initiator depth).
	MaxQPInitRdAtom uint8

	// LocalCAAckDelay is the longest time that the device takes to acknowledge a packet, as
	// a code from 0 to 31. The code c means 4.096 µs * 2^c.
	LocalCAAckDelay uint8
}

// PortAttr has the current attributes of one port. Source: ibv_query_port(3),
// ibv_query_gid_table(3).
type PortAttr struct {
	State      PortState // logical state of the port
	MaxMTU     MTU       // largest MTU that the port supports
	ActiveMTU  MTU       // MTU that the port uses now
	MaxMsgSize uint32    // longest message, in bytes
	GIDs       []GID     // addresses of the port; AHAttr.SourceIndex is an index of this slice
}

// A Counter is a count of events of one kind, on a port of a device or on a loop of package
// reactor. On a device the count begins at 0 when the driver creates the device. In
// provider/soft the count begins at 0 when the device is opened.
type Counter struct {
	Name string
	Help string // what the counter counts; "" if the device does not say it
	Unit string // "bytes", "nanoseconds", or "" for a number
	// Gauge is true if Value is no count, but a present value, such as the number of open
	// connections, or the largest one so far.
	Gauge bool
	Value uint64
}

// PortState is the logical state of a port.
type PortState uint8

// Port states, numbered as in enum ibv_port_state.
const (
	PortNop    PortState = iota // reserved; no port has this state
	PortDown                    // the link is down
	PortInit                    // the link is up, but not configured yet
	PortArmed                   // the link is configured, but not active yet
	PortActive                  // the port can send and receive
)

func (s PortState) String() string {
	names := [...]string{"nop", "down", "init", "armed", "active"}
	if int(s) < len(names) {
		return names[s]
	}
	return unknown("port state", uint64(s))
}

// An MTU is a code for the largest payload of a packet on a network path. Connection
// requests contain the same codes.
type MTU uint8

// MTU codes, numbered as in enum ibv_mtu.
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

// A GID is the address of a port. On RoCEv2 a GID is an IPv6 address, or an IPv4 address
// in the form ::ffff:a.b.c.d (IBTA annex A17).
type GID [16]byte

// GIDFromAddr returns the GID of an IP address. The zone of an IPv6 address is dropped. The
// GID of the zero Addr is zero.
func GIDFromAddr(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address of a RoCEv2 GID. For a GID of the form ::ffff:a.b.c.d, Addr
// returns the IPv4 address a.b.c.d, and for any other GID the IPv6 address with its bytes.
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

// An AsyncEvent reports an error or another change of a device, or of an object of the
// device, that is not the result of a call. Source: ibv_get_async_event(3).
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // number of the port for port events; 0 for other events
	QP   QP    // queue pair for QP events; nil for other events
	CQ   CQ    // completion queue for CQ events; nil for other events
	SRQ  SRQ   // shared receive queue for SRQ events; nil for other events
}

// An AsyncError reports that an asynchronous event of a device has ended a connection. It
// matches ErrProtocol if the peer has sent an invalid or forbidden request. Source:
// ibv_get_async_event(3).
type AsyncError struct {
	Device string         // name of the device
	Type   AsyncEventType // type of the event
}

// Is reports whether target is ErrProtocol and the peer has caused the event.
func (e *AsyncError) Is(target error) bool {
	return target == ErrProtocol && (e.Type == AsyncQPRequestError || e.Type == AsyncQPAccessError)
}

// Error returns the name of the device and the type of the event.
func (e *AsyncError) Error() string { return e.Device + ": " + e.Type.String() }

// AsyncEventType is the type of an asynchronous event.
type AsyncEventType uint8

// Types of asynchronous events, numbered as in enum ibv_event_type. A provider may also
// report other values of that enum, for which this package has no names.
const (
	AsyncCQError        AsyncEventType = 0  // a CQ was overrun or failed
	AsyncQPFatal        AsyncEventType = 1  // a QP failed and is in the error state
	AsyncQPRequestError AsyncEventType = 2  // a QP received an invalid request
	AsyncQPAccessError  AsyncEventType = 3  // a QP received a request that violates its access rights
	AsyncCommEst        AsyncEventType = 4  // a QP in the state RTR received its first message
	AsyncSQDrained      AsyncEventType = 5  // the send queue of a QP in the state SQD is drained
	AsyncDeviceFatal    AsyncEventType = 8  // the device failed
	AsyncPortActive     AsyncEventType = 9  // a port became active
	AsyncPortError      AsyncEventType = 10 // a port became inactive
	AsyncSRQError       AsyncEventType = 14 // an SRQ failed
	AsyncSRQLimit       AsyncEventType = 15 // an SRQ has fewer buffers than the limit given to SRQ.Arm
	AsyncQPLastWQE      AsyncEventType = 16 // a QP in the error state takes no more buffers from its SRQ
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
