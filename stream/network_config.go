package stream

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A NetworkConfig configures a Network. The zero value means the defaults.
type NetworkConfig struct {
	// Buffers are the sizes of the buffers of each connection.
	Buffers Buffers
	// SpinBudget is how long a Read or Write that must wait polls the loop before it sleeps.
	// Polling makes round trips much shorter, but it uses a processor. A goroutine does not
	// poll while other goroutines sleep in a Read or Write. After polls without success it
	// polls for a shorter time. Zero means 200 µs. Negative means no polling.
	SpinBudget time.Duration
	// LocalAddr is the address from which Dial connects. The zero value means that the
	// provider chooses it.
	LocalAddr netip.Addr
	// Backlog is how many open connections of a Listener may wait for Accept. Further
	// requests are rejected. Requests that were accepted before, and whose connections open
	// when there is no room any more, end with a reset. Zero means 128. A negative value is
	// an error.
	Backlog int
	// CloseTimeout is how long Conn.Close waits until the peer has received everything.
	// Zero means 5s. A negative value is an error.
	CloseTimeout time.Duration
	// Reactor configures the loop. NumLoops and CPUs must be zero. If MaxInFlight is zero,
	// it means 256. CloseTimeout replaces DrainTimeout.
	Reactor reactor.Config
}

// Defaults of NetworkConfig. They are arbitrary. defaultSpinBudget is longer than the
// round trip of a program that answers at once, on every path.
const (
	defaultSpinBudget   = 200 * time.Microsecond
	defaultBacklog      = 128
	defaultCloseTimeout = 5 * time.Second
	defaultInFlight     = 256
)

// setDefaults replaces zero values by the defaults, and checks the others.
func (c *NetworkConfig) setDefaults() (err error) {
	if c.Buffers, err = c.Buffers.withDefaults(defaultConnBuffer); err != nil {
		return err
	}
	if c.Backlog < 0 {
		return &verbs.ParamError{Field: "Backlog", Value: int64(c.Backlog)}
	}
	if c.CloseTimeout < 0 {
		return &verbs.ParamError{Field: "CloseTimeout", Value: int64(c.CloseTimeout)}
	}
	c.SpinBudget = orDefault(c.SpinBudget, defaultSpinBudget)
	c.Backlog = orDefault(c.Backlog, defaultBacklog)
	c.CloseTimeout = orDefault(c.CloseTimeout, defaultCloseTimeout)
	c.Reactor.DrainTimeout = c.CloseTimeout
	c.Reactor.MaxInFlight = orDefault(c.Reactor.MaxInFlight, defaultInFlight)
	return nil
}

// orDefault returns v, or the default value if v is zero.
func orDefault[T comparable](v, value T) T {
	var zero T
	if v == zero {
		return value
	}
	return v
}
