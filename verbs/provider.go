package verbs

// A Provider gives access to the RDMA devices of one implementation. Any goroutine may
// call its methods.
type Provider interface {
	// Name returns the provider's short name, such as "soft" or "rdmacore".
	Name() string

	// Devices returns the open devices, always in the same order. Provider.Close closes
	// them. The caller owns the slice. Source: ibv_get_device_list(3),
	// rdma_get_devices(3).
	Devices() ([]Device, error)

	// Close closes every device. It returns ErrBusy while an object that was created
	// from a device is open.
	Close() error
}

// Caps has the optional abilities of a device; DeviceAttr has its limits. Package
// providertest tests the abilities that Caps reports.
type Caps struct {
	Atomics  bool // the device supports compare-and-swap and fetch-and-add
	WriteImm bool // the device supports RDMA WRITE with immediate data
	SRQ      bool // the device supports shared receive queues
	UD       bool // the device supports UD queue pairs
	ResizeCQ bool // the device supports CQ.Resize
	// LoopbackAddrs is true if ::1 and each address in 127.0.0.0/8 is a usable address of
	// its own.
	LoopbackAddrs bool

	// ExactPrivateData is true if private data arrives with the length that was sent.
	// Otherwise it arrives padded with zeros. Source: rdma_accept(3).
	ExactPrivateData bool

	// ProgressManual is true if the device has manual progress; see Progress. Otherwise
	// the device moves data by itself, even for a CQ with manual progress.
	ProgressManual bool
}

// Progress says who moves the data of a CQ and of its QPs and SRQs.
type Progress uint8

// Kinds of progress.
const (
	// ProgressAuto means that the provider moves data by itself. Any goroutine may call
	// the methods of the CQ and of its QPs and SRQs.
	ProgressAuto Progress = iota
	// ProgressManual means that one goroutine owns the CQ. Data moves only while the
	// owner polls the CQ or takes events from its channel. Only the owner may call the
	// methods of the CQ and of its QPs and SRQs.
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
