package verbs

// A Counter is one event counter of a port. Value is the number of times that the event
// has happened since the driver created the device, or, for a device in software, since
// the device was opened. The value never decreases.
type Counter struct {
	Name  string
	Value uint64
}

// A CounterReader is a Device that can report counters of its ports. The ability is
// optional: test for it with a type assertion.
type CounterReader interface {
	// Counters returns the counters of a port, sorted by name. Ports are numbered from
	// 1. The caller owns the slice. Any goroutine may call. The values are read one
	// after another and are not a consistent snapshot: one counter may already include a
	// packet that another does not.
	//
	// The names are those under ports/N/hw_counters of a device in Linux's sysfs
	// (Documentation/ABI/stable/sysfs-class-infiniband). Each driver has its own set; a
	// name that two drivers share has the same meaning in both. The devices of
	// provider/soft use the name that the driver rxe has for the event. If rxe has none,
	// they use the name that the driver mlx5 has.
	//
	// The error is a *ParamError for a port that does not exist. If the driver has no
	// counters, the error matches ErrNotSupported.
	Counters(port uint8) ([]Counter, error)
}
