package verbs

// A Provider gives access to the RDMA devices of one implementation. Any goroutine may
// call its methods.
type Provider interface {
	// Name returns the provider's short name, such as "soft" or "rdmacore".
	Name() string

	// Devices returns the open devices. Each call returns the same devices in the same
	// order. The provider owns the devices, and Provider.Close closes them. The caller
	// owns the slice. Source: ibv_get_device_list(3), rdma_get_devices(3).
	Devices() ([]Device, error)

	// Close closes every device. It returns ErrBusy while objects that were created from
	// them are open.
	Close() error
}

// Caps has the optional abilities of a device; DeviceAttr has its limits. The
// conformance suite skips a case only if the ability that the case needs is false here.
type Caps struct {
	Atomics  bool // compare-and-swap, fetch-and-add
	WriteImm bool // RDMA WRITE with immediate data
	SRQ      bool // shared receive queues
	UD       bool // unreliable datagram queue pairs
	ResizeCQ bool // CQ.Resize
	// Addresses in 127.0.0.0/8 and ::1 can be used, each as an address of its own.
	LoopbackAddrs bool

	// ExactPrivateData is true if private data arrives with the length that was sent.
	// Otherwise it arrives padded with zeros to the size of the message's field. Source:
	// rdma_accept(3).
	ExactPrivateData bool

	// ProgressManual is true if a CQ created with ProgressManual moves data only while
	// it is polled. False means that the device moves data by itself.
	ProgressManual bool
}

// Progress says who moves the data of a CQ and of the objects that complete on it.
type Progress uint8

// Kinds of progress.
const (
	// ProgressAuto means that the provider moves data by itself. Any goroutine may call.
	ProgressAuto Progress = iota
	// ProgressManual means that data moves only while the owner polls the CQ or takes
	// events from its channel. One goroutine owns the CQ and everything that completes
	// on it.
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
