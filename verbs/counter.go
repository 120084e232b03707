package verbs

// A Counter is one event counter of a port. Value counts the events since the driver
// created the device, or in provider/soft since the device was opened. Value never
// decreases.
type Counter struct {
	Name  string
	Value uint64
}

// A CounterReader is a Device that can report counters of its ports. The ability is
// optional: test for it with a type assertion.
type CounterReader interface {
	// Counters returns the counters of a port, sorted by name. Ports are numbered from 1.
	// The caller owns the slice. Any goroutine may call Counters. The values are read one
	// after another and are not a consistent snapshot.
	//
	// The names are those in Linux's sysfs, under ports/N/hw_counters. The package
	// comment of provider/soft lists the counters of its devices.
	//
	// If the port does not exist, the error is a *ParamError. If the device has no
	// counters, the error matches ErrNotSupported.
	Counters(port uint8) ([]Counter, error)
}
