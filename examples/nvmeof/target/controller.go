package target

import (
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// controllerState is the state of a controller as its property CSTS shows it. Source: NVM
// Express Base Specification 2.0, 3.5 and 3.6.
type controllerState uint8

const (
	// controllerDisabled: the state after Connect, and after the host has cleared CC.EN.
	// Only Fabrics commands are executed.
	controllerDisabled controllerState = iota
	// controllerReady: the host has set CC.EN with a valid configuration. All commands
	// are executed.
	controllerReady
	// controllerFatal: the host has set CC.EN with an invalid configuration. Clearing
	// CC.EN leads back to controllerDisabled.
	controllerFatal
	// controllerShutDown: the host has asked for a shutdown, and will disconnect.
	controllerShutDown
)

// A controller is what one host has connected to: an admin queue and its I/O queues. The
// mutex of the target protects the fields from state on.
type controller struct {
	target    *Target
	id        uint16
	admin     *queue
	subsystem *Subsystem // nil for the discovery subsystem
	hostID    [16]byte
	host      string // NQN of the host
	// writes orders the writes of all controllers of the host.
	writes *writeOrder
	// keepAlive is the time after which a controller without commands ends. Only the loop
	// of the admin queue uses it.
	keepAlive time.Duration
	timer     *reactor.Timer // calls watchKeepAlive; nil before its first use
	lastHeard atomic.Int64   // time of the last command, nanoseconds of the Unix clock
	ready     atomic.Bool    // the state is controllerReady

	// The mutex target.mu protects the next fields.

	state   controllerState
	config  nvme.Config
	queues  map[uint16]*queue // connected I/O queues by their identifiers
	granted int               // number of I/O queues that the host may connect
	held    []*command        // asynchronous event requests; only the admin loop uses it
}

// heard records that the host has sent a command.
func (ct *controller) heard(now time.Time) { ct.lastHeard.Store(now.UnixNano()) }

// watchKeepAlive ends the controller when its host has sent nothing for too long. It is
// called on the loop of the admin queue, and again by a timer.
func (ct *controller) watchKeepAlive() {
	if ct.keepAlive == 0 || ct.admin.ended.Load() {
		return
	}
	l := ct.admin.loop.loop
	left := time.Unix(0, ct.lastHeard.Load()).Add(ct.keepAlive).Sub(l.Now())
	if left <= 0 {
		ct.admin.abort(errKeepAlive)
		return
	}
	if ct.timer == nil {
		ct.timer = l.After(left, ct.watchKeepAlive)
	} else {
		ct.timer.Reset(left)
	}
}

// property returns the value of a property. The parameter size is its length in bytes.
func (ct *controller) property(offset uint32, size int) (uint64, nvme.Status) {
	t := ct.target
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case offset == nvme.PropertyCAP && size == 8:
		return nvme.Capabilities(queueSize), nvme.Success
	case offset == nvme.PropertyVS && size == 4:
		return nvme.Version14, nvme.Success
	case offset == nvme.PropertyCC && size == 4:
		return uint64(ct.config), nvme.Success
	case offset == nvme.PropertyCSTS && size == 4:
		return ct.status(), nvme.Success
	}
	return 0, nvme.InvalidField.Final()
}

// status returns the property CSTS.
func (ct *controller) status() uint64 {
	switch ct.state {
	case controllerReady:
		return nvme.StatusReady
	case controllerFatal:
		return nvme.StatusFatal
	case controllerShutDown:
		return nvme.StatusShutdownComplete | nvme.StatusReady
	}
	return 0
}

// configure sets the property CC.
func (ct *controller) configure(cc nvme.Config) {
	t := ct.target
	t.mu.Lock()
	defer t.mu.Unlock()
	enabled := ct.config.Enable()
	ct.config = cc
	switch {
	case cc.Shutdown():
		ct.state = controllerShutDown
	case !cc.Enable():
		ct.state = controllerDisabled
	case !enabled || ct.state == controllerDisabled:
		ct.state = controllerReady
		if !cc.Supported(ct.subsystem != nil) {
			ct.state = controllerFatal
		}
	}
	ct.ready.Store(ct.state == controllerReady)
}

// queueEnded removes a queue. The end of the admin queue also ends the I/O queues.
func (ct *controller) queueEnded(q *queue) {
	t := ct.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if q != ct.admin {
		if ct.queues[q.id] == q {
			delete(ct.queues, q.id)
		}
		return
	}
	if ct.timer != nil {
		ct.timer.Stop()
	}
	delete(t.controllers, ct.id)
	ct.writes.controllers--
	for _, io := range ct.queues {
		io.loop.post(func() { io.abort(errAdminEnded) })
	}
}
