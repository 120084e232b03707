package verbs

// A Counter counts one kind of event on a port of a device. Value never decreases. It
// starts at 0 when the driver creates the device. In provider/soft it starts at 0 when
// the device is opened.
type Counter struct {
	Name  string
	Value uint64
}

// A CounterReader is a Device that has counters. Use a type assertion to find out
// whether a Device is a CounterReader.
type CounterReader interface {
	// Counters returns the counters of a port, sorted by name. Ports are numbered from
	// 1. Any goroutine may call Counters. The caller owns the slice.
	//
	// The values are read one after another, so they may differ slightly in age.
	//
	// Linux shows counters with the same names in sysfs, under ports/N/hw_counters. The
	// package comment of provider/soft lists the counters of its devices.
	//
	// If the port does not exist, the error is a *ParamError. If the device has no
	// counters, the error matches ErrNotSupported.
	Counters(port uint8) ([]Counter, error)
}
