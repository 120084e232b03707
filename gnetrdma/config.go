package gnetrdma

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the options that gnet does not have. Its methods do what the functions of
// this package do. The zero value means the defaults.
type Config struct {
	// Provider has the devices. If it has verbs.Caps.ProgressManual, it has at least as many
	// completion vectors as event loops. The caller closes the Provider when Run has returned
	// or Client.Stop was called. If Provider is nil, Run and NewClient open the provider
	// that provider.Open("auto") chooses for the first address of Run, and close it. For a
	// client it is an RDMA device, if there is one.
	Provider cm.Provider
	// Reactor configures the event loops. NumLoops is set from the options of gnet; OnBoot and
	// OnShutdown are not used. Limits.MaxPosted is not used, because the program posts no functions. If
	// MaxInFlight is zero, it means 256.
	Reactor reactor.Config
	// Buffers are the sizes of the memory of each connection. Zero means 512 KiB for each
	// of them, and not 128 KiB as for stream.Listen. The system provides the memory when it
	// is first used.
	Buffers stream.Buffers
	// MaxOutbound is how many bytes of a connection may wait until the peer reads. When
	// the handler writes more, the connection ends with ErrOutboundFull. While more than
	// a quarter of MaxOutbound waits, OnTraffic is not called, so a peer that sends
	// requests and reads no answers has to wait. Zero means 16 MiB. With a negative number,
	// Run and NewClient return a *verbs.ParamError.
	MaxOutbound int
	// MaxInbound is how many bytes of a connection the handler may leave unread. When
	// more are left, the connection ends with ErrInboundFull. Zero means 16 MiB. With a
	// negative number, Run and NewClient return a *verbs.ParamError.
	MaxInbound int
}

const (
	defaultInFlight     = 256
	defaultDrainTimeout = 5 * time.Second // as in reactor.Config
	defaultBuffer       = 512 << 10
	defaultBound        = 16 << 20
	defaultReadCap      = 64 << 10 // as in gnet
	maxLockedLoops      = 10000    // as in gnet
)

// withDefaults returns a copy of c with the defaults for zero values. If a value is out
// of range, the error is a *verbs.ParamError.
func (c *Config) withDefaults() (Config, error) {
	d := *c
	for _, bound := range []struct {
		name  string
		value *int
	}{{"MaxOutbound", &d.MaxOutbound}, {"MaxInbound", &d.MaxInbound}} {
		if *bound.value < 0 {
			return d, fmt.Errorf("gnetrdma: %w", &verbs.ParamError{Field: bound.name, Value: int64(*bound.value)})
		}
		if *bound.value == 0 {
			*bound.value = defaultBound
		}
	}
	for _, size := range []*int{&d.Buffers.Receive, &d.Buffers.Send} {
		if *size == 0 {
			*size = defaultBuffer
		}
	}
	if d.Reactor.MaxInFlight == 0 {
		d.Reactor.MaxInFlight = defaultInFlight
	}
	return d, nil
}

// loadOptions returns the options of gnet with the defaults for zero values.
func loadOptions(opts []gnet.Option) (gnet.Options, error) {
	var o gnet.Options
	for _, option := range opts {
		option(&o)
	}
	if o.NumEventLoop <= 0 {
		o.NumEventLoop = 1
		if o.Multicore {
			o.NumEventLoop = runtime.NumCPU()
		}
	}
	if o.LockOSThread && o.NumEventLoop > maxLockedLoops {
		return o, gneterrors.ErrTooManyEventLoopThreads
	}
	if o.ReadBufferCap <= 0 {
		o.ReadBufferCap = defaultReadCap
	}
	return o, nil
}

// reactorConfig returns the configuration of the event loops.
func (e *engine) reactorConfig() *reactor.Config {
	r := e.cfg.Reactor
	r.NumLoops = e.options.NumEventLoop
	r.OnBoot, r.OnShutdown = e.boot, e.shutdown
	r.Limits.MaxPosted = math.MaxInt32 // Calls of Dial count, too, and enqueue must not fail because of them.
	return &r
}

// loopFor chooses the loop of a connection, as the option LB says. Nil means the loop with the
// fewest connections, also if the chosen loop is full: another one may have room.
func (e *engine) loopFor(r *stream.Request) *reactor.Loop {
	n := uint32(e.reactor.NumLoops())
	var i uint32
	switch e.options.LB {
	case gnet.LeastConnections:
		return nil
	case gnet.SourceAddrHash:
		i = crc32.ChecksumIEEE([]byte(r.RemoteAddr().String())) % n
	default:
		i = (e.accepted.Add(1) - 1) % n
	}
	const defaultMaxConns = 8192 // the default of reactor.Config.MaxConns
	limit := cmp.Or(e.cfg.Reactor.MaxConns, defaultMaxConns)
	if l := e.reactor.Loop(int(i)); limit < 0 || l.Conns() < limit {
		return l
	}
	return nil
}

var (
	// ErrOutboundFull means that more output waited for the peer than Config.MaxOutbound.
	ErrOutboundFull = errors.New("gnetrdma: the peer does not read, and too much output waits")
	// ErrInboundFull means that the handler left more bytes unread than Config.MaxInbound.
	ErrInboundFull = errors.New("gnetrdma: the handler has left too many bytes unread")
	// ErrNotStarted means that Client.Start was not called before Client.Dial.
	ErrNotStarted = errors.New("gnetrdma: the client was not started")
)
