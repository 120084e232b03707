package soft

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"runtime"
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Path selects the paths to peers that a device may use.
type Path uint8

const (
	// PathAuto uses the local path to peers on this host, and the wire path (RoCEv2) to
	// peers on other hosts. A UD queue pair may have both.
	//
	// In two cases a listener accepts requests on the local path only:
	//
	//   - at a loopback address
	//   - at an address whose UDP port another process has; see Config.ListenOnAll
	//
	// The wire path drops packets from this host, because their user is not known. A
	// dial to this host fails if no process listens on the local path. It also fails if
	// a security module of the kernel forbids the connection.
	PathAuto Path = iota
	// PathLocal uses the local path only.
	PathLocal
	// PathWire uses the wire path only, without a check of users.
	//
	// Two devices of this host can connect if both have PathWire, and each uses an
	// address of its own, such as 127.0.0.2. The dialing side chooses its address with
	// reactor.DialOptions.LocalAddr or cm.ID.Bind.
	//
	// A dial to a listener on this host fails if the listener's device has PathAuto. The
	// error matches cm.ErrAddrInUse, cm.ErrTimedOut or cm.ErrRefused. It depends on which
	// process has the UDP port (Config.WirePort) at the two addresses.
	PathWire
)

func (p Path) String() string {
	switch p {
	case PathAuto:
		return "auto"
	case PathLocal:
		return connmgr.LocalPath
	case PathWire:
		return connmgr.WirePath
	}
	return fmt.Sprintf("path %d", uint8(p))
}

// MarshalText returns the name of the path: "auto", "local" or "wire". With it and
// UnmarshalText a Path can be a flag: see flag.TextVar.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets the path from its name. The error is a *verbs.ParamError.
func (p *Path) UnmarshalText(text []byte) error {
	for path := range PathWire + 1 {
		if path.String() == string(text) {
			*p = path
			return nil
		}
	}
	return &verbs.ParamError{Field: "path", NotNumber: true, Reason: fmt.Sprintf("%q is none of auto, local and wire", text)}
}

// AnyUser in Config.AllowedUsers allows the processes of every user. No user has this
// number; see chown(2).
const AnyUser = access.AnyUser

// Config configures a device. Open copies it. A nil *Config means the zero value.
type Config struct {
	// Path selects the paths to peers.
	Path Path
	// RingBytes is the size of the shared memory for payload in flight on the local path,
	// for each direction. All connections between the same two shards use the same shared
	// memory. RingBytes is a power of two from 4 KiB to 64 MiB. Zero means 256 KiB.
	RingBytes int
	// RingSlots is the largest number of messages in flight on the local path between two
	// shards, for each direction. It is a power of two from 8 to 32768. Zero means 256.
	RingSlots int
	// PrivateRegions hides the memory of regions from other processes. By default a peer
	// process of the same user on this host maps a region that PD.Alloc has made with
	// remote access rights. The peer then executes READs, WRITEs and atomics itself,
	// even while the owner of the region does not poll. Each such region takes one
	// descriptor. All regions together take at most an eighth of RLIMIT_NOFILE; further
	// regions are private.
	//
	// PrivateRegions also stops the device from mapping regions of peers.
	PrivateRegions bool
	// MaxMappedPerProcess is how many bytes the device maps because of one peer process on
	// this host: the regions of the process (see PrivateRegions), and the memory that it
	// shares with the device for messages. A region beyond the limit is not mapped, so the
	// peer executes the requests. Regions leave an eighth of the limit to connections. A
	// connection that needs further shared memory is refused with cm.RejectNoResources, or
	// fails with verbs.ErrProtocol if this side has dialed. The processes of one user in
	// other PID namespaces count as one.
	//
	// Zero means 1 TiB, or 64 MiB if addresses have 32 bits. Negative means no limit.
	MaxMappedPerProcess int64
	// MaxMapped is the same limit for all peer processes together. Zero means 16 TiB, or
	// 512 MiB if addresses have 32 bits. Negative means no limit.
	MaxMapped int64
	// AllowedUsers are the user IDs whose processes may be peers on the local path. Root
	// and the user of the device (the effective user ID at Open) are always allowed.
	// AnyUser in the list allows every user. PathWire does not check users.
	//
	// In a user namespace that does not map all user IDs, the kernel reports one ID for
	// all unmapped users (see /proc/sys/kernel/overflowuid). Only AnyUser allows this ID,
	// even for the user of the device.
	AllowedUsers []uint32
	// ListenOnAll makes Listen fail if it can not serve every address on every path that
	// Path allows. By default Listen serves what it can; see cm.ID.Serves. Addresses
	// that are added later cause no error.
	ListenOnAll bool
	// MaxConnsPerUser is the largest number of local connections that one user may have
	// to the device. Root and the user of the device have no limit. Zero means an eighth
	// of RLIMIT_NOFILE at Open. Negative means no limit.
	//
	// A connection to a listener counts as soon as its request arrives. At the limit,
	// requests are refused with cm.RejectNoResources.
	//
	// Each pair of a UD sender and a UD receiver counts as one connection. At the limit,
	// a new connection replaces the longest idle connection of the user to the same
	// receiver. No datagram is lost.
	//
	// All unmapped users (see AllowedUsers) count as one user, different from the user
	// of the device.
	MaxConnsPerUser int
	// MaxHalfOpen is the largest number of half-open connections and lookups of one
	// listener on the wire path. A connection is half-open until the address of its peer
	// is validated. A lookup asks for the queue pair number of a UD service (IBTA vol.
	// 1, 12.11).
	//
	// At the limit, a new request replaces the oldest entry of the source address that
	// has the most entries. Zero means 512. The maximum is 65536.
	MaxHalfOpen int
	// MaxHalfOpenPerAddress is the largest number of half-open connections and lookups
	// of one source address. IPv6 addresses with the same first 64 bits count as one.
	//
	// At the limit, a new request replaces the oldest entry of the address, if the entry
	// is older than a second. Otherwise the request is dropped, and the peer retransmits
	// it. Zero means half of MaxHalfOpen, rounded up. The maximum is MaxHalfOpen.
	MaxHalfOpenPerAddress int
	// MaxConnsPerAddress is the largest number of connections on the wire path from one
	// source address to the device's listeners. Half-open connections count, lookups do
	// not. IPv6 addresses count as for MaxHalfOpenPerAddress.
	//
	// At the limit, requests are refused with cm.RejectNoResources. While the address
	// has half-open connections, requests are dropped instead. Zero means 4096. The
	// maximum is 1048576.
	MaxConnsPerAddress int
	// WirePort is the UDP port of both ends of the wire path. Zero means 4791, the port
	// that all other implementations use. Only one process can have the port at an
	// address.
	WirePort uint16
	// Capture writes the packets of the device to a file. Nil means no capture.
	Capture *Capture
	// Logger gets a warning when a limit of the system or of this Config has refused a
	// connection or memory, or has lost packets: see the counters in the comment of the
	// package. Nil means the result of slog.Default when Open is called. Each warning comes
	// at most 10 times at once, and then once in a minute.
	Logger *slog.Logger
}

// A Capture configures the file to which a device writes its packets; see "Captures" in the
// comment of the package. The file has payloads and memory keys in clear text.
type Capture struct {
	// File is the name of the file, in the format pcapng. Open makes the file, with the mode
	// 0600. It is an error if the file exists: a capture overwrites nothing, follows no
	// symbolic link, and is never readable by a user who has made the file before.
	File string
	// SnapLen is the largest number of bytes of a packet in the file, including its IP header,
	// up to 65535. Zero means whole packets. With 96 most packets have all headers, and a few
	// bytes of payload.
	SnapLen int
	// Buffer is the size in bytes of the memory in which packets of one loop wait to be
	// written: a power of two from 64 KiB to 1 GiB. Zero means 4 MiB. While it is full, packets
	// are dropped and counted.
	Buffer int
}

const (
	maxVectors       = shm.MaxShards / 2 // see qp.ShardsOf
	minVectors       = 32                // see vectorsOn
	maxConnsPerUser  = 1 << 20           // largest Config.MaxConnsPerUser; a device has no more queue pairs
	defaultRingBytes = 256 << 10
	defaultRingSlots = 256

	// With this default, half-open connections take up to 13 MiB, or 26 MiB before
	// garbage collection.
	defaultHalfOpen = 512
	maxHalfOpen     = 1 << 16
	// This is half of the default limit of a reactor loop, so that the connections of
	// one address can not use up the limit.
	defaultConnsPerAddress = 4096
	maxConnsPerAddress     = 1 << 20 // the same as qp's maxQP

	maxSnapLen    = 1<<16 - 1 // longer than any packet
	defaultBuffer = 4 << 20
	minBuffer     = 64 << 10
	maxBuffer     = 1 << 30
)

// Defaults of Config.MaxMappedPerProcess and Config.MaxMapped: parts of the 128 TiB that
// Linux gives a process on amd64 and arm64, or of the 3 GiB with 32 bits.
const (
	wide                    = bits.UintSize / 64 // 1 with 64 bits, and else 0
	defaultMappedPerProcess = 64<<20 + wide*(1<<40-64<<20)
	defaultMapped           = 512<<20 + wide*(16<<40-512<<20)
)

// withDefaults returns a checked deep copy of c, with defaults in place of zero values.
func (c *Config) withDefaults() (Config, error) {
	var out Config
	if c != nil {
		out = *c
		out.AllowedUsers = slices.Clone(c.AllowedUsers)
	}
	if out.RingBytes == 0 {
		out.RingBytes = defaultRingBytes
	}
	out.Logger = cmp.Or(out.Logger, slog.Default())
	out.MaxMappedPerProcess = cmp.Or(out.MaxMappedPerProcess, defaultMappedPerProcess)
	out.MaxMapped = cmp.Or(out.MaxMapped, defaultMapped)
	if out.WirePort == 0 {
		out.WirePort = wire.UDPPort
	}
	if out.RingSlots == 0 {
		out.RingSlots = defaultRingSlots
	}
	out.MaxHalfOpen = cmp.Or(out.MaxHalfOpen, defaultHalfOpen)
	out.MaxHalfOpenPerAddress = cmp.Or(out.MaxHalfOpenPerAddress, (out.MaxHalfOpen+1)/2)
	out.MaxConnsPerAddress = cmp.Or(out.MaxConnsPerAddress, defaultConnsPerAddress)
	if out.Capture != nil {
		out.Capture = &Capture{
			File: out.Capture.File, SnapLen: cmp.Or(out.Capture.SnapLen, maxSnapLen), Buffer: cmp.Or(out.Capture.Buffer, defaultBuffer),
		}
	}
	return out, out.check()
}

// check returns a *verbs.ParamError for the first value that is out of range.
func (c *Config) check() error {
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"Path", int(c.Path), 0, int(PathWire)},
		{"MaxConnsPerUser", c.MaxConnsPerUser, math.MinInt, maxConnsPerUser},
		{"MaxHalfOpen", c.MaxHalfOpen, 1, maxHalfOpen},
		{"MaxHalfOpenPerAddress", c.MaxHalfOpenPerAddress, 1, c.MaxHalfOpen},
		{"MaxConnsPerAddress", c.MaxConnsPerAddress, 1, maxConnsPerAddress},
	} {
		if err := operr.CheckRange(f.name, f.value, f.low, f.high); err != nil {
			return err
		}
	}
	return cmp.Or(c.geometry().Check(), c.Capture.check())
}

func (c *Capture) check() error {
	switch {
	case c == nil:
		return nil
	case c.File == "":
		return &verbs.ParamError{Field: "Capture.File", NotNumber: true, Reason: "the name of the file is missing"}
	case c.Buffer&(c.Buffer-1) != 0:
		return &verbs.ParamError{Field: "Capture.Buffer", Value: int64(c.Buffer), Reason: "not a power of two"}
	}
	return cmp.Or(operr.CheckRange("Capture.SnapLen", c.SnapLen, 1, maxSnapLen), operr.CheckRange("Capture.Buffer", c.Buffer, minBuffer, maxBuffer))
}

// vectorsOn returns the number of completion vectors of a device. Each loop needs one, and a
// program with more loops than processors is slow. A shard is made when its vector is used,
// so unused vectors cost nothing, but they divide the queue pair numbers: with 32 vectors a
// shard has 262,144 of them. The number is fixed, because packets are steered to the shards
// by it; see udp.steer. On a simulated host it does not depend on the processors.
func vectorsOn(h simhost.Host) int {
	if h != nil {
		return minVectors
	}
	return min(max(runtime.GOMAXPROCS(0), runtime.NumCPU(), minVectors), maxVectors)
}

// geometry returns the layout of the memory that two shards share.
func (c *Config) geometry() shm.Geometry {
	return shm.Geometry{Slots: uint32(c.RingSlots), Bytes: uint32(c.RingBytes)}
}

// byteLimits returns the limits of the memory that peers make the device map.
func (c *Config) byteLimits() shm.ByteLimits {
	return shm.ByteLimits{Process: uint64(max(c.MaxMappedPerProcess, 0)), All: uint64(max(c.MaxMapped, 0))}
}
