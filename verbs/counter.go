package verbs

// A Counter is one event counter of a port. Value counts events since the driver created
// the device, or for a device in software since it was opened. It never decreases.
type Counter struct {
	Name  string
	Value uint64
}

// A CounterReader is a Device that can report counters of its ports. The ability is
// optional: test for it with a type assertion.
type CounterReader interface {
	// Counters returns the counters of a port, sorted by name. Ports are numbered from 1.
	// The caller owns the slice. Any goroutine may call. The values are read one after
	// another and are not a consistent snapshot.
	//
	// The names are those in Linux's sysfs, under ports/N/hw_counters. The soft devices
	// use names of the driver rxe, or else of mlx5.
	//
	// A port that does not exist is a *ParamError. Without counters the error matches
	// ErrNotSupported.
	Counters(port uint8) ([]Counter, error)
}
