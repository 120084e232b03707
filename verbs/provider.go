package verbs

// A Provider gives access to the RDMA devices of one implementation. Its
// methods may be called from any goroutine.
type Provider interface {
	// Name is the provider's short name, such as "soft" or "rdmacore".
	Name() string

	// Devices lists the devices, opened. Each call returns the same handles in
	// the same order. They belong to the provider and end with it. The slice
	// is the caller's. Source: ibv_get_device_list(3), rdma_get_devices(3).
	Devices() ([]Device, error)

	// Close ends every device. It returns ErrBusy while objects made from
	// them are open.
	Close() error
}

// Caps tells what a device can do beyond the numbers of DeviceAttr. The
// conformance suite skips a case only when the capability it needs is false
// here.
type Caps struct {
	Atomics       bool // compare-and-swap, fetch-and-add
	WriteImm      bool // RDMA WRITE with immediate data
	SRQ           bool // shared receive queues
	UD            bool // unreliable datagram queue pairs
	ResizeCQ      bool // CQ.Resize
	LoopbackAddrs bool // 127.0.0.0/8 and ::1 can be bound, connected to and told apart

	// ExactPrivateData is true when private data arrives with the length that
	// was sent. Otherwise it arrives zero-padded to the size of the message's
	// field (rdma_accept(3): "the length may be larger").
	ExactPrivateData bool

	// ProgressManual is true when a CQ made with ProgressManual moves data
	// only while it is polled. False means the device moves data by itself.
	ProgressManual bool
}

// Progress says who moves the data of a CQ and of what completes on it.
type Progress uint8

const (
	// ProgressAuto: the provider moves data by itself. Any goroutine may call.
	ProgressAuto Progress = iota
	// ProgressManual: data moves while the owner polls the CQ or takes events
	// from its channel. One goroutine owns the CQ and all that completes on it.
	ProgressManual
)

func (p Progress) String() string {
	switch p {
	case ProgressAuto:
		return "auto"
	case ProgressManual:
		return "manual"
	}
	return unknown("progress", uint64(p))
}
