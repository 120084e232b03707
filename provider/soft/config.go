package soft

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

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
	// peers on other hosts. A UD queue pair may have peers on both paths.
	//
	// A listener accepts requests on both paths. At a loopback address it accepts
	// requests on the local path only. The sockets of the wire path drop packets that
	// processes of this host have sent. The reason is that a packet does not show which
	// user has sent it. So the device could not check whether this user is allowed. If
	// another process has the UDP port of an address, the listener accepts requests to
	// that address on the local path only. cm.ID.Serves then reports the address as not
	// served on the wire path. With Config.ListenOnAll, Listen returns an error instead.
	//
	// A dial to this host fails if no process listens on the local path, or if a
	// security module of the kernel does not let the processes connect.
	PathAuto Path = iota
	// PathLocal uses the local path only.
	PathLocal
	// PathWire uses the wire path only. A peer on this host has to use PathWire as well.
	// It is treated like a peer on another host: the device does not check which user it
	// belongs to.
	//
	// A device of PathWire needs UDP port 4791 of its local address for itself. Two such
	// devices on one host, also in one process, need different addresses, such as
	// 127.0.0.1 and 127.0.0.2. The dialing side chooses its local address with
	// reactor.DialOptions.LocalAddr, or with cm.ID.Bind.
	//
	// A device with PathAuto on this host does not answer the requests of a device with
	// PathWire. A dial from the second to the first fails with one of these errors:
	//
	//   - a *cm.RejectError with cm.RejectInvalidServiceID if the local address of the
	//     dial is the address of the listener, which has no UDP port at a loopback address:
	//     the dialing device has the port itself, and refuses its own request;
	//   - cm.ErrAddrInUse if the first device has the UDP port of the local address;
	//   - a *cm.UnreachableError if no process has the UDP port of the listener's address;
	//   - cm.ErrTimedOut in the other cases, because the first device drops the requests.
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

// AnyUser in Config.AllowedUsers allows the processes of every user. No user has this
// number: it is (uid_t) -1, see chown(2).
const AnyUser = access.AnyUser

// Config configures a device. Open copies it. A nil *Config means the zero value.
type Config struct {
	// Vectors is the number of completion vectors, and so of shards. Zero means
	// GOMAXPROCS; the maximum is 1024.
	Vectors int
	// Path selects the paths to peers.
	Path Path
	// RingBytes is the size of the shared memory for payload in flight, for each
	// direction of a connection on the local path. It is a power of two from 4 KiB to 64
	// MiB. Zero means 256 KiB. The system allocates a page of it when a message first
	// uses the page.
	RingBytes int
	// RingSlots is the largest number of requests in flight, for each direction of a
	// connection on the local path. It is a power of two from 8 to 65536. Zero means
	// 256.
	RingSlots int
	// AllowedUsers are the user IDs whose processes on this host may be peers on the
	// local path, in addition to root and the user that the device belongs to (the
	// effective user ID at Open). An empty list allows no other users. AnyUser in the
	// list allows every user. PathWire does not check users.
	//
	// The kernel reports all users who are not mapped into this user namespace with one
	// number: the number in /proc/sys/kernel/overflowuid (65534 by default). Such a user
	// is allowed only if the list has AnyUser. If the user of this process has the same
	// number, and not every user is mapped, the device can not tell this user from the
	// others. Then this user, too, is allowed only if the list has AnyUser.
	AllowedUsers []uint32
	// ListenOnAll makes Listen return an error unless the listener can accept requests
	// on each path that Path allows, at each address that it is bound to. False means
	// that the listener serves the addresses that it can; see cm.ID.Serves. An address
	// that is added to the host later does not cause an error.
	ListenOnAll bool
	// MaxConnsPerUser is the largest number of connections on the local path that the
	// processes of one other user may have to the device. Root and the user that the
	// device belongs to have no limit. Zero means an eighth of RLIMIT_NOFILE, which is
	// read when the device is opened: a connection needs two descriptors, and one user
	// may use a quarter of all descriptors. Negative means no limit.
	//
	// In a user namespace that does not map every user, the kernel reports one number,
	// the overflow user ID, for all users who are not mapped. If the user that the device
	// belongs to has this number, the device can not tell this user from the others.
	// Then this user, too, has the limit, and the connections of all these users are
	// counted together.
	//
	// Connections to listeners of the device count, including requests that were not
	// accepted yet. Further requests are refused with cm.RejectNoResources.
	//
	// Connections of UD queue pairs of that user to UD queue pairs of the device count
	// too, one for each pair of sender and receiver. When the user has reached the limit,
	// a new connection of this kind replaces another one of this user to the same
	// receiver: the one that was idle for the longest time. The sender of the replaced
	// connection connects again when it sends, and no datagram is lost.
	MaxConnsPerUser int
	// MaxHalfOpen is the largest number of half-open connections and lookups of one
	// listener on the wire path. A lookup is a request for the queue pair number of a UD
	// service (IBTA vol. 1, 12.11). A connection is half-open until the address of its
	// peer is validated: while it waits for the application's answer, and after Accept
	// until the peer has confirmed the reply. When a listener has MaxHalfOpen half-open
	// connections and lookups, the next request replaces one of them. The listener
	// chooses the source address that has the most of them, and ends the oldest one of
	// that address. Zero means 512; the maximum is 65536.
	MaxHalfOpen int
	// MaxHalfOpenPerAddress is the largest number of half-open connections and lookups
	// of one source address. IPv6 addresses with the same first 64 bits count as one
	// address. When an address has reached the number, its next request replaces the
	// oldest half-open connection or lookup of the address, if that is older than a
	// second. Otherwise the request is dropped, and the peer retransmits it. Zero means
	// half of MaxHalfOpen, rounded up; the maximum is MaxHalfOpen.
	MaxHalfOpenPerAddress int
	// MaxConnsPerAddress is the largest number of connections from one source address to
	// the listeners of the device on the wire path. Half-open connections count, and
	// lookups do not. Addresses are counted as for MaxHalfOpenPerAddress. When an address
	// has reached the number and none of its connections is half-open, further requests
	// are refused with cm.RejectNoResources. As long as some of them are half-open,
	// further requests are dropped, and the peer retransmits them. Zero means 4096; the
	// maximum is 1048576.
	MaxConnsPerAddress int
	// WirePort is the UDP port of the wire path, the same at both ends. Zero means 4791,
	// the port of RoCEv2; other implementations use no other port. Only one process can
	// have the port at an address.
	WirePort uint16
}

const (
	maxVectors       = 1024
	maxConnsPerUser  = 1 << 20 // number of queue pairs that a device can have
	defaultRingBytes = 256 << 10
	defaultRingSlots = 256

	// A half-open connection takes 26 KiB, including the queues of the reactor. So the
	// default number of half-open connections takes 13 MiB for each listener. With the
	// memory that the garbage collector has not freed yet, they take up to 26 MiB.
	defaultHalfOpen = 512
	maxHalfOpen     = 1 << 16
	// The default is half of the connections that a loop of the reactor accepts by
	// default, so that one address can not fill a loop.
	defaultConnsPerAddress = 4096
	maxConnsPerAddress     = 1 << 20 // number of queue pairs that a device can have
)

// withDefaults returns a checked deep copy of c with the defaults in place of zero
// values.
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
	return out, out.geometry().Check()
}

// setWireLimits checks MaxHalfOpen, MaxHalfOpenPerAddress and MaxConnsPerAddress. Those
// that are zero get their default first.
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

// slots returns the largest number of shards of the device. The slot of a shard is a
// number below this limit, and no two shards have the same slot. A queue pair number
// divided by the result of slots has the slot of its shard as the remainder.
func (c *Config) slots() uint32 { return 2 * uint32(c.Vectors) }

// numberFor returns a queue pair number for the shard with the given slot. It changes
// the random number in the parameter num so that the remainder is the slot; see slots.
func (c *Config) numberFor(slot, num uint32) uint32 { return num - num%c.slots() + slot }

// geometry returns the layout of the shared memory of a connection on the local path.
func (c *Config) geometry() shm.Geometry {
	return shm.Geometry{
		RequestSlots:  uint32(c.RingSlots),
		RequestBytes:  uint32(c.RingBytes),
		ResponseSlots: uint32(max(c.RingSlots/8, shm.MinRingSlots)),
		ResponseBytes: uint32(max(c.RingBytes/2, shm.MinRingBytes)),
	}
}
