package verbs

// A Counter is a count of events of one kind on a port of a device. The field Value never
// decreases. The count begins at 0 when the driver creates the device. In provider/soft
// the count begins at 0 when the device is opened.
type Counter struct {
	Name  string
	Value uint64
}

// A CounterReader is a Device with a method that reads its counters. Use a type assertion
// to find out whether a Device is a CounterReader.
type CounterReader interface {
	// Counters returns the counters of a port, sorted by name. Ports are numbered from 1.
	// Any goroutine may call Counters. The caller owns the returned slice.
	//
	// Counters reads one value after another, so the values are not from the same instant.
	//
	// Linux shows counters with the same names in sysfs, under ports/N/hw_counters. The
	// package comment of provider/soft lists the counters of its devices.
	//
	// If the port does not exist, the error is a *ParamError. If the device has no
	// counters, the error matches ErrNotSupported.
	Counters(port uint8) ([]Counter, error)
}
