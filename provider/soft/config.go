package soft

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Path says which ways to a peer the device may use.
type Path uint8

const (
	// PathAuto takes the local path to peers on this host, and speaks RoCEv2 to peers on
	// other hosts. A listener takes requests on both paths: the system drops packets
	// that processes of this host send to its UDP port, because the user of their sender
	// is not known. A dial to this host fails if no process listens on the local path,
	// or if a security module of the kernel does not let the processes connect. When
	// another process has the UDP port of an address, the listener takes requests to
	// that address from this host only; cm.ID.Serves reports that, and ListenOnAll makes
	// it an error. It never listens on the wire at a loopback address. A UD queue pair
	// may have peers on both paths.
	PathAuto Path = iota
	// PathLocal takes the local path only.
	PathLocal
	// PathWire speaks RoCEv2 only, also to peers on this host, which need PathWire too.
	// It does not check the users of such peers: to them the device is as open as to
	// other hosts. A device with PathAuto on this host does not answer it, so a dial to
	// one ends after the time for which a request is repeated.
	PathWire
)

func (p Path) String() string {
	switch p {
	case PathAuto:
		return "auto"
	case PathLocal:
		return "local"
	case PathWire:
		return "wire"
	}
	return fmt.Sprintf("path %d", uint8(p))
}

// Config configures a device. It is copied; nil means the zero value.
type Config struct {
	// Vectors is the number of completion vectors, and so of shards. Zero means
	// GOMAXPROCS; at most 1024.
	Vectors int
	// Path says how peers may be reached.
	Path Path
	// RingBytes is the room for payload in flight of one direction of a local
	// connection, a power of two from 4 KiB to 64 MiB. Zero means 256 KiB. The
	// memory is used as far as messages fill it.
	RingBytes int
	// RingSlots is how many requests of one direction of a local connection can
	// be in flight, a power of two from 8 to 65536. Zero means 256.
	RingSlots int
	// AllowedUsers are the user IDs whose processes on this host may be peers, in
	// addition to root and the user that the device belongs to (the effective user ID at
	// Open). They apply to the local path; see PathWire. AnyUser in the list allows every
	// user. A user who is not mapped into this user namespace is
	// allowed by AnyUser only. Such users have the number in /proc/sys/kernel/overflowuid
	// (65534 by default). If the user of this process has that number, and not every user
	// is mapped, the user of this process is also allowed by AnyUser only. An empty list
	// allows nobody else.
	AllowedUsers []uint32
	// ListenOnAll makes Listen return an error unless the listener can take requests by
	// each path that Path allows, at each address that it is bound to. False means that
	// the listener serves the addresses that it can; see cm.ID.Serves. An address that
	// the host is given later never makes an error.
	ListenOnAll bool
	// MaxConnsPerUser is how many connections on the local path the processes of one
	// other user may have to the device. Connections to its listeners count, including
	// requests that were not accepted yet. Further requests are refused with
	// cm.RejectNoResources. Connections of UD queue pairs of that user to UD queue pairs
	// of the device count too, one for each pair of sender and receiver. A further one
	// replaces the one of that user to the same receiver that was idle for longest. The
	// sender of that one connects again when it sends, and no datagram is lost. Root and
	// the user that the device belongs to have no limit. Zero means a quarter of the
	// connections for which the process has descriptors (RLIMIT_NOFILE, two for each
	// connection) when the device is opened; negative means no limit.
	MaxConnsPerUser int
	// MaxHalfOpen is how many half-open connections and lookups one listener has on the
	// wire path. A connection is half-open until its peer has proven that it receives
	// messages: while it waits for the application's answer, and after Accept until the
	// peer has confirmed that. When there are MaxHalfOpen of them, the next request
	// replaces the oldest one of the source address that has the most. Zero means 512;
	// the maximum is 65536.
	MaxHalfOpen int
	// MaxHalfOpenPerAddress is how many of them one source address has. The next request
	// of the address is dropped while the oldest one is less than a second old, and the
	// peer repeats it; later it replaces the oldest one. IPv6 addresses with the same
	// first 64 bits count as one. Zero means half of MaxHalfOpen, rounded up; the maximum
	// is MaxHalfOpen.
	MaxHalfOpenPerAddress int
	// MaxConnsPerAddress is how many connections one source address can make to the
	// listeners of the device on the wire path. Addresses are counted as for
	// MaxHalfOpenPerAddress. Further requests are refused with cm.RejectNoResources.
	// Zero means 4096; the maximum is 1048576.
	MaxConnsPerAddress int
	// WirePort is the UDP port of the wire path, the same at both ends. Zero
	// means 4791, the only one that others than this library know. On an
	// address one process can have it.
	WirePort uint16
}

const (
	maxVectors       = 1024
	maxConnsPerUser  = 1 << 20 // no device has more queue pairs than this
	defaultRingBytes = 256 << 10
	defaultRingSlots = 256

	// A half-open connection takes 26 KiB with the queues of the reactor. The default
	// takes 13 MiB for a listener, and twice that between two garbage collections.
	defaultHalfOpen = 512
	maxHalfOpen     = 1 << 16
	// The default is half of what a loop of the reactor takes by default, so that no
	// single address can fill a loop.
	defaultConnsPerAddress = 4096
	maxConnsPerAddress     = 1 << 20 // no device has more queue pairs than this
)

// withDefaults returns a checked deep copy in which zero values are replaced by their
// defaults.
func (c *Config) withDefaults() (Config, error) {
	var out Config
	if c != nil {
		out = *c
		out.AllowedUsers = slices.Clone(c.AllowedUsers)
	}
	if out.Vectors == 0 {
		out.Vectors = min(runtime.GOMAXPROCS(0), maxVectors)
	}
	if out.RingBytes == 0 {
		out.RingBytes = defaultRingBytes
	}
	if out.WirePort == 0 {
		out.WirePort = wire.UDPPort
	}
	if out.RingSlots == 0 {
		out.RingSlots = defaultRingSlots
	}
	if err := out.setWireLimits(); err != nil {
		return out, err
	}
	if out.Vectors < 0 || out.Vectors > maxVectors {
		return out, &verbs.ParamError{Field: "vectors", Value: int64(out.Vectors), Limit: maxVectors}
	}
	if out.MaxConnsPerUser > maxConnsPerUser {
		return out, &verbs.ParamError{Field: "connections per user", Value: int64(out.MaxConnsPerUser), Limit: maxConnsPerUser}
	}
	if out.Path > PathWire {
		return out, &verbs.ParamError{Field: "path", Value: int64(out.Path), Limit: int64(PathWire)}
	}
	return out, out.geometry().check()
}

// setWireLimits sets the defaults of the limits of connection requests on the wire
// path, and checks the limits.
func (c *Config) setWireLimits() error {
	c.MaxHalfOpen = cmp.Or(c.MaxHalfOpen, defaultHalfOpen)
	c.MaxHalfOpenPerAddress = cmp.Or(c.MaxHalfOpenPerAddress, (c.MaxHalfOpen+1)/2)
	c.MaxConnsPerAddress = cmp.Or(c.MaxConnsPerAddress, defaultConnsPerAddress)
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"half-open connections", c.MaxHalfOpen, maxHalfOpen},
		{"half-open connections per address", c.MaxHalfOpenPerAddress, c.MaxHalfOpen},
		{"connections per address", c.MaxConnsPerAddress, maxConnsPerAddress},
	} {
		if f.value < 1 || f.value > f.most {
			return &verbs.ParamError{Field: f.name, Value: int64(f.value), Limit: int64(f.most), Reason: "out of range"}
		}
	}
	return nil
}

// slots is the number of shards that there can be.
func (c *Config) slots() uint32 { return 2 * uint32(c.Vectors) }

// numberFor is the queue pair number closest below num that is a slot's: the
// remainder of the division by the number of slots tells it.
func (c *Config) numberFor(slot, num uint32) uint32 { return num - num%c.slots() + slot }

// geometry is the layout of a local connection's memory under this config.
func (c *Config) geometry() geometry {
	return geometry{
		requestSlots:  uint32(c.RingSlots),
		requestBytes:  uint32(c.RingBytes),
		responseSlots: uint32(max(c.RingSlots/8, minRingSlots)),
		responseBytes: uint32(max(c.RingBytes/2, minRingBytes)),
	}
}
