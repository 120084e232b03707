package verbs

// A Provider gives access to the RDMA devices of one implementation. Any goroutine may
// call its methods.
type Provider interface {
	// Name returns the provider's short name, such as "soft" or "rdmacore".
	Name() string

	// Devices returns the open devices, always in the same order. The caller owns the
	// slice. Only Provider.Close closes the devices. Source: ibv_get_device_list(3),
	// rdma_get_devices(3).
	Devices() ([]Device, error)

	// Close closes every device. It returns ErrBusy while an object of a device is open.
	Close() error
}

// Caps has the optional abilities of a device. The limits of the device are in
// DeviceAttr. The tests in package providertest check the abilities that a device
// reports.
type Caps struct {
	Atomics  bool // the device supports compare-and-swap and fetch-and-add
	WriteImm bool // the device supports RDMA WRITE with immediate data
	SRQ      bool // the device supports shared receive queues
	UD       bool // the device supports UD queue pairs
	ResizeCQ bool // the device supports CQ.Resize
	// MemoryWindows is true if the device supports memory windows (PD.AllocMW), OpBindMW,
	// OpLocalInv and OpSendInv.
	MemoryWindows bool
	// LoopbackAddrs is true if every address in 127.0.0.0/8 can be used, and ::1 too.
	// Each of them is an address of its own.
	LoopbackAddrs bool

	// ExactPrivateData is true if private data arrives with the length that was sent. If
	// it is false, private data arrives padded with zeros. Source: rdma_accept(3).
	ExactPrivateData bool

	// ProgressManual is true if the device supports manual progress; see Progress. If it
	// is false, the device always moves data by itself.
	ProgressManual bool
}

// Progress says who moves the data of a CQ, and of the QPs and SRQs that use the CQ.
type Progress uint8

// Values of Progress.
const (
	// ProgressAuto means that the provider moves data by itself. Any goroutine may call
	// the methods of the CQ, and of the QPs and SRQs that use it.
	ProgressAuto Progress = iota
	// ProgressManual means that one goroutine owns the CQ. Data moves only while the
	// owner polls the CQ or takes events from its channel. Only the owner may call the
	// methods of the CQ, and of the QPs and SRQs that use it.
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
