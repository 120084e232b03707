package verbs

// A Provider gives access to the RDMA devices of one implementation. Any goroutine may
// call the methods of a Provider.
type Provider interface {
	// Name returns the provider's short name, such as "soft" or "rdmacore".
	Name() string

	// Devices returns the open devices, always in the same order. The caller owns the
	// returned slice. Only Provider.Close closes the devices. Source:
	// ibv_get_device_list(3), rdma_get_devices(3).
	Devices() ([]Device, error)

	// Close closes every device. Close returns ErrBusy while an object of a device is open.
	// Source: rdma_free_devices(3).
	Close() error
}

// Caps has the optional abilities of a device. DeviceAttr has the limits of the device.
// The tests in package providertest check the abilities that a device reports.
type Caps struct {
	Atomics  bool // the device supports compare-and-swap and fetch-and-add
	WriteImm bool // the device supports RDMA WRITE with immediate data
	SRQ      bool // the device supports shared receive queues
	UD       bool // the device supports UD queue pairs
	ResizeCQ bool // the device supports CQ.Resize
	// MemoryWindows is true if the device supports memory windows (PD.AllocMW), OpBindMW,
	// OpLocalInv and OpSendInv.
	MemoryWindows bool
	// LoopbackAddrs is true if connections can use ::1 and every address in 127.0.0.0/8.
	// Each of these addresses is then independent of the others.
	LoopbackAddrs bool

	// ExactPrivateData is true if private data arrives with the length that was sent. If
	// ExactPrivateData is false, private data arrives padded with zeros. Source:
	// rdma_accept(3).
	ExactPrivateData bool
	// DisconnectData is true if a disconnect request can carry private data (IBTA vol. 1,
	// 12.6.10).
	DisconnectData bool
	// RecvTime is true if the device knows when a message has arrived from the network:
	// see QPInitAttr.RecvTime.
	RecvTime bool
	// RecvModes is true if the device supports QP.SetRecvMode.
	RecvModes bool

	// ProgressManual is true if the device supports manual progress; see Progress. If
	// ProgressManual is false, the device always moves data by itself. A CQ with
	// ProgressManual then still belongs to one goroutine.
	ProgressManual bool
}

// Progress says whether a provider moves data by itself, or only when the owner of a CQ
// calls methods. The data is that of the CQ, and of the QPs and SRQs that use the CQ.
type Progress uint8

// Values of Progress.
const (
	// ProgressAuto means that the provider moves data by itself. Any goroutine may call the
	// methods of the CQ, and of the QPs and SRQs that use the CQ.
	ProgressAuto Progress = iota
	// ProgressManual means that one goroutine owns the CQ. Data moves only while the owner
	// polls the CQ or takes events from the CQ's channel. Only the owner may call the
	// methods of the CQ, and of the QPs and SRQs that use the CQ.
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
