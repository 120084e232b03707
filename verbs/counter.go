package verbs

// A Counter is one of the numbers that a device keeps about a port: how often
// something has happened since its driver made it, or for a device in software since
// it was opened. It never decreases.
type Counter struct {
	Name  string
	Value uint64
}

// A CounterReader is a Device that tells what it has counted. The ability is
// optional: look for it by type assertion.
type CounterReader interface {
	// Counters returns what was counted at a port, sorted by name; ports count
	// from 1. The slice is the caller's. Any goroutine may call. It is no snapshot:
	// while packets come and go one counter may be ahead of another.
	//
	// The names are those under ports/N/hw_counters of a device in Linux's sysfs
	// (Documentation/ABI/stable/sysfs-class-infiniband): every driver has its own,
	// and names that two of them share mean the same. The counters of a
	// provider's own devices take the names of rxe, else those of mlx5, where there
	// is one.
	//
	// An error is a *ParamError for a port that does not exist, and matches
	// ErrNotSupported where the driver counts nothing.
	Counters(port uint8) ([]Counter, error)
}
