package target

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// maxControllerID is the largest identifier of a controller. The larger ones have other
// meanings.
const maxControllerID = 0xFFEF

// A Target serves the disks of its subsystems to NVMe over Fabrics hosts. It is the
// Handler of one engine, whose configuration Configure has changed.
type Target struct {
	reactor.BaseHandler
	cfg        Config
	subsystems map[string]*Subsystem
	workers    *workers
	loops      []*loop // loops of the target, indexed by reactor.Loop.Index

	mu          sync.Mutex // mutex for the fields below
	controllers map[uint16]*controller
	lastID      uint16
	hosts       map[hostKey]*writeOrder
	running     int // number of loops that have not ended
}

// A hostKey identifies a host by the identifier and the NQN that it sends in its Connect
// commands.
type hostKey struct {
	id  [16]byte
	nqn string
}

// New returns a target. It fails if a subsystem is not valid. The target keeps cfg and
// its subsystems.
func New(cfg *Config, loops int) (*Target, error) {
	t := &Target{
		cfg: *cfg, subsystems: make(map[string]*Subsystem), loops: make([]*loop, loops),
		controllers: make(map[uint16]*controller), hosts: make(map[hostKey]*writeOrder),
		// The first identifier is random. A host that reconnects after a restart of
		// the target may still have an older controller. It would refuse a new
		// controller with the same identifier.
		lastID: uint16(rand.UintN(maxControllerID)),
	}
	t.cfg.setDefaults()
	for _, s := range cfg.Subsystems {
		if err := s.prepare(); err != nil {
			return nil, err
		}
		if t.subsystems[s.NQN] != nil {
			return nil, fmt.Errorf("two subsystems with the name %s", s.NQN)
		}
		t.subsystems[s.NQN] = s
	}
	t.workers = newWorkers(t.cfg.Workers)
	return t, nil
}

// boot is Config.OnBoot of the engine.
func (t *Target) boot(l *reactor.Loop) (err error) {
	t.loops[l.Index()], err = newLoop(t, l)
	if err == nil {
		t.mu.Lock()
		t.running++
		t.mu.Unlock()
	}
	return err
}

// shutdown is Config.OnShutdown of the engine. The workers may still use the buffers of the
// loop, so shutdown waits for them.
func (t *Target) shutdown(l *reactor.Loop) {
	t.loops[l.Index()].drain()
	t.loops[l.Index()].checkEmpty()
	t.loops[l.Index()].reportSlow()
	t.mu.Lock()
	t.running--
	last := t.running == 0
	t.mu.Unlock()
	if last {
		t.workers.stop()
	}
}

// OnConnectRequest accepts the connection of a queue, or rejects it with the reason.
func (t *Target) OnConnectRequest(req *reactor.ConnRequest) {
	r, reason := checkRequest(req)
	if reason != 0 {
		_ = req.Reject(nvme.AppendReject(nil, reason)) // Reject fails if the host has gone.
		return
	}
	size := int(r.SendSizeM1) + 1
	_ = req.Accept(&reactor.AcceptOptions{
		PrivateData: nvme.AppendQueueAccept(nil, uint16(size)),
		// Hosts do not READ from the target.
		ResponderResources: -1,
		UserData:           newQueue(t, r.QID, size),
		// The queues of a host are spread over the loops.
		Loop: req.Engine().Loop(int(r.QID) % req.Engine().NumLoops()),
	})
}

// checkRequest checks the private data of a connection request. The reason is 0 if the
// queue can be accepted.
func checkRequest(req *reactor.ConnRequest) (r nvme.QueueRequest, reason nvme.RejectReason) {
	limit := queueSize
	err := r.UnmarshalBinary(req.PrivateData())
	if r.QID == 0 {
		limit = adminSize
	}
	switch {
	case err != nil:
		return r, nvme.RejectLength
	case r.Format != 0:
		return r, nvme.RejectFormat
	case int(r.SendSizeM1) >= limit || r.SendSizeM1 == 0:
		return r, nvme.RejectSendSize
	// The target fetches the data of a Connect command by a READ, which the host must allow.
	case req.Param().InitiatorDepth == 0:
		return r, nvme.RejectIRD
	}
	return r, 0
}

// OnOpen implements reactor.Handler.
func (t *Target) OnOpen(c *reactor.Conn) {
	c.UserData.(*queue).open(c, t.loops[c.Loop().Index()])
}

// OnMessage implements reactor.Handler.
func (t *Target) OnMessage(c *reactor.Conn, msg reactor.Message) { c.UserData.(*queue).receive(msg) }

// OnCompletion implements reactor.Handler.
func (t *Target) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	c.UserData.(*queue).completed(op.Tag, err)
}

// OnWritable implements reactor.Handler.
func (t *Target) OnWritable(c *reactor.Conn) { c.UserData.(*queue).writable() }

// OnClose implements reactor.Handler.
func (t *Target) OnClose(c *reactor.Conn, err error) { c.UserData.(*queue).end(err) }

// newController makes a controller with the admin queue q. It returns nil if there are
// MaxControllers already.
func (t *Target) newController(q *queue, sub *Subsystem, data *nvme.ConnectData) *controller {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.controllers) >= t.cfg.MaxControllers {
		return nil
	}
	for {
		t.lastID = t.lastID%maxControllerID + 1
		if t.controllers[t.lastID] == nil {
			break
		}
	}
	ct := &controller{
		target: t, id: t.lastID, admin: q, subsystem: sub, hostID: data.HostID, host: data.Host,
		queues: make(map[uint16]*queue), writes: t.writesOf(data),
	}
	t.controllers[ct.id] = ct
	return ct
}

// writesOf returns the writeOrder of a host, and counts one more controller of the host.
// It removes hosts that have no controllers and no writes any more.
func (t *Target) writesOf(data *nvme.ConnectData) *writeOrder {
	maps.DeleteFunc(t.hosts, func(_ hostKey, w *writeOrder) bool { return w.controllers == 0 && w.idle() })
	key := hostKey{data.HostID, data.Host}
	w := t.hosts[key]
	if w == nil {
		w = newWriteOrder()
		t.hosts[key] = w
	}
	w.controllers++
	return w
}
