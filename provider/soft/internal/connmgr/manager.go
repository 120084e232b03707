//go:build linux

package connmgr

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/access"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/random"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/shm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Config has the settings of a Manager, and the parts of the device that the Manager
// uses. The Manager does not own these parts. All fields must be set, except that one of
// the transports may be nil.
type Config struct {
	Sim    simhost.Host   // simulated host; nil on this host
	Host   *hostport.Host // host of the device
	Device verbs.Device   // device whose IDs the manager makes
	Engine Engine         // engine of the device
	Start  time.Time      // time at which the clock of all timers is zero

	// Transports of the local path and of the wire path; nil for a path that the device does
	// not use.
	Local Transport
	Wire  WireTransport
	// ListenOnAll makes Listen return an error if a listener can not be opened at one of its
	// addresses.
	ListenOnAll bool
	// FreePorts returns the host's range of ephemeral ports.
	FreePorts func() (hostport.PortRange, error)
}

// A Manager is the connection management of one device. It implements cm.Transport. Any
// goroutine may call its methods.
type Manager struct {
	Config
	limits verbs.DeviceAttr // attributes of the device
	random random.Source    // source of the first packet sequence numbers
}

// New returns the Manager of a device. A Manager need not be closed, but each event
// channel that it has opened must be closed.
func New(cfg *Config) *Manager {
	return &Manager{Config: *cfg, limits: cfg.Device.Attr(), random: random.From(cfg.Sim)}
}

// OpenChannel implements cm.Transport. It opens an event channel.
func (m *Manager) OpenChannel() (cm.TransportChannel, error) {
	ch, err := openChannel(m)
	if err != nil {
		return nil, operr.Wrap("open event channel", resource.Wrap(err))
	}
	return ch, nil
}

var _ cm.Transport = (*Manager)(nil)

// An Engine transfers the data of connections. Any goroutine may call its methods. The
// engine may hold its own lock when it calls DataHearer.DataHeard. Therefore nobody may
// call a method of the engine while holding a lock that DataHeard takes.
type Engine interface {
	// AddChannel is called before an event channel is opened. It returns verbs.ErrClosed if
	// the device is closed, and a *verbs.ParamError if there are too many channels. A device
	// with open channels can not be closed.
	AddChannel() error
	// RemoveChannel is called after an event channel has been closed.
	RemoveChannel()
	// SourceIndex returns the GID index of an address of this host. The index is 0 if the
	// address has no GID.
	SourceIndex(of netip.Addr) (int, error)
	// Bind tells the queue pair qpn how to reach its peer. The queue pair uses the binding
	// after it has entered RTR. The engine owns b.End, even if Bind returns an error. A later
	// Bind replaces the binding.
	Bind(qpn uint32, b *Binding) error
	// Unbind removes the binding b of a queue pair. If another binding has replaced b, Unbind
	// does nothing. If no queue pair has used b.End, Unbind releases b.End.
	Unbind(qpn uint32, b *Binding)
	// PeerGone tells a queue pair that the process of its peer has ended without closing the
	// connection. If the queue pair does not use b.End, PeerGone does nothing.
	PeerGone(qpn uint32, b *Binding)
	// AwaitsNotices reports whether a queue pair waits for notices of its peer. A notice says
	// which requests of this side the peer has executed. AwaitsNotices first processes the
	// notices that the peer has written to shared memory. It returns true if requests of this
	// side are still outstanding and the peer has announced notices that have not arrived.
	AwaitsNotices(qpn uint32, b *Binding) bool
}

// PortNumber is the number of the device's only port.
const PortNumber = 1

// LargestMTU is the largest path MTU (IBTA vol. 1, 6.8). Queue pairs on the local path
// always use it.
const LargestMTU = verbs.MTU4096

// A Binding tells the engine how a queue pair reaches its peer. It must not change after
// Bind.
type Binding struct {
	// End is this side's end of the connection's shared memory. It is nil on the wire
	// path.
	End *shm.End
	// Peer identifies the process of the peer. The engine passes Peer to access.ErrorLimit
	// with each access error of the peer. Peer is set only on the local path.
	Peer access.Source
	// Flow is the end-to-end flow control of the connection. It is used only on the wire
	// path.
	Flow CreditFlow
	// Hearer is the connection of the queue pair. It is nil on the local path.
	Hearer DataHearer
}

// A DataHearer is told that the peer of a connection has sent data.
type DataHearer interface {
	// DataHeard is called when the first data packet of the peer arrives. This packet
	// proves that the peer has received the REP or the RTU. The engine may call DataHeard
	// from any goroutine. DataHeard must not call the engine.
	DataHeard()
}

// CreditFlow says which sides use end-to-end flow control. A side that does not use it
// advertises infinite credits (IBTA vol. 1, 12.6.7).
type CreditFlow struct {
	Sends    bool // true if this side advertises its receive buffers
	Receives bool // true if the peer advertises its receive buffers
}

// A QueuePair is a queue pair of the device.
type QueuePair interface {
	verbs.QP
	// Closed reports whether the queue pair was closed. Any goroutine may call it.
	Closed() bool
	// ReceiveAt makes a UD queue pair receive datagrams of the wire path only if they arrive
	// at the given address. If the address is the zero Addr, or if ReceiveAt returns an
	// error, the queue pair receives no datagrams of the wire path. On a device without wire
	// path, ReceiveAt does nothing.
	ReceiveAt(at netip.Addr) error
}

// A boundQP is the binding of the queue pair of one ID. The zero value has no binding.
type boundQP struct {
	qpn     uint32 // number of the queue pair; 0 before the first call of bind()
	binding *Binding
}

func (b *boundQP) bind(e Engine, qpn uint32, to *Binding) error {
	b.qpn, b.binding = qpn, to
	return e.Bind(qpn, to)
}

func (b *boundQP) unbind(e Engine) {
	if b.binding != nil {
		e.Unbind(b.qpn, b.binding)
		b.binding = nil
	}
}

// peerGone tells the bound queue pair that the peer's process has ended.
func (b *boundQP) peerGone(e Engine) {
	if b.binding != nil {
		e.PeerGone(b.qpn, b.binding)
	}
}

// awaitsNotices reports whether the bound queue pair waits for notices of the peer. Only
// the local path has notices. One may wait for room in shared memory, so a DREQ may arrive
// before notices that were sent earlier.
func (b *boundQP) awaitsNotices(e Engine) bool {
	return b.binding != nil && b.binding.End != nil && e.AwaitsNotices(b.qpn, b.binding)
}
