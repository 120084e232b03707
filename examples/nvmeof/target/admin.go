package target

import (
	"encoding/hex"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
)

// maxEvents is the number of asynchronous event requests that a controller holds.
const maxEvents = 4

// Opcodes that the effects log names.
var (
	adminOpcodes = []uint8{
		nvme.AdminGetLogPage, nvme.AdminIdentify, nvme.AdminAbort, nvme.AdminSetFeatures,
		nvme.AdminGetFeatures, nvme.AdminAsyncEvent, nvme.AdminKeepAlive,
	}
	ioOpcodes = []uint8{nvme.IOFlush, nvme.IOWrite, nvme.IORead, nvme.IOWriteZeroes, nvme.IODatasetManagement}
)

// planAdmin decodes a command of the admin queue. See plan.
func (q *queue) planAdmin(c *command) (n int, status nvme.Status) {
	switch op := c.sqe().Opcode(); {
	case op == nvme.AdminIdentify:
		c.dir, c.work = toHost, q.identify
		return nvme.IdentifySize, nvme.Success
	case op == nvme.AdminGetLogPage:
		return q.planLog(c)
	case op == nvme.AdminKeepAlive:
		c.work = q.keepAlive
	case op == nvme.AdminAsyncEvent:
		c.work = q.holdEvent
	case op == nvme.AdminSetFeatures:
		c.work = q.setFeatures
	case op == nvme.AdminGetFeatures:
		c.work = q.getFeatures
	case op == nvme.AdminAbort:
		c.work = func(c *command) nvme.Status { c.result = 1; return nvme.Success } // The result 1 means "not aborted".
	default:
		return 0, nvme.InvalidOpcode.Final()
	}
	return 0, nvme.Success
}

// keepAlive needs to do nothing: receive has recorded that the host is alive.
func (q *queue) keepAlive(*command) nvme.Status {
	if q.controller.keepAlive == 0 {
		return nvme.KeepAliveInvalid
	}
	return nvme.Success
}

// holdEvent keeps an asynchronous event request until there is an event.
func (q *queue) holdEvent(c *command) nvme.Status {
	ct := q.controller
	if len(ct.held) == maxEvents {
		return nvme.TooManyEvents.Final()
	}
	ct.held = append(ct.held, c)
	c.state = commandHeld
	return nvme.Success
}

// identify fills the data of the command Identify.
func (q *queue) identify(c *command) nvme.Status {
	cmd, sub := c.sqe(), q.controller.subsystem
	cns := cmd.Uint8(nvme.IdentifyCNSAt)
	if cns == nvme.IdentifyController {
		d := q.controller.describe()
		return fill(c, must(d.AppendBinary(nil)))
	}
	if sub == nil {
		return nvme.InvalidField.Final()
	}
	switch cns {
	case nvme.IdentifyActive:
		return fill(c, nvme.AppendActive(nil, sub.after(cmd.Namespace())))
	case nvme.IdentifyNamespace, nvme.IdentifyDescriptors:
		return identifyNamespace(c, sub, cns)
	}
	return nvme.InvalidField.Final()
}

// identifyNamespace describes a namespace.
func identifyNamespace(c *command, sub *Subsystem, cns uint8) nvme.Status {
	id := c.sqe().Namespace()
	switch n := sub.namespace(id); {
	case n == nil && (cns == nvme.IdentifyDescriptors || id == allNamespaces || id == 0):
		return nvme.InvalidNamespace.Final()
	case n == nil:
		return fill(c, nil) // zeros: the namespace does not exist
	case cns == nvme.IdentifyNamespace:
		return fill(c, must(sub.described[id-1].AppendBinary(nil)))
	}
	return fill(c, sub.described[id-1].AppendDescriptors(nil))
}

// allNamespaces is the identifier that means every namespace.
const allNamespaces = 0xFFFFFFFF

// namespace returns the namespace with an identifier, or nil.
func (s *Subsystem) namespace(id uint32) *Namespace {
	if id == 0 || uint64(id) > uint64(len(s.Namespaces)) {
		return nil
	}
	return &s.Namespaces[id-1]
}

// after returns the identifiers of the namespaces above id.
func (s *Subsystem) after(id uint32) (ids []uint32) {
	for i := range s.Namespaces {
		if uint32(i+1) > id {
			ids = append(ids, uint32(i+1))
		}
	}
	return ids
}

// describe returns what the host is told about the controller.
func (ct *controller) describe() nvme.Controller {
	d := nvme.Controller{
		ID: ct.id, Subsystem: nvme.NQNDiscovery, Model: "rdmaloop NVMe-oF target", Firmware: "1",
		Discovery: ct.subsystem == nil, MaxQueue: queueSize, MaxData: maxData, WriteCache: true,
	}
	if sub := ct.subsystem; sub != nil {
		id := sub.uuid(-1)
		d.Subsystem, d.Namespaces = sub.NQN, uint32(len(sub.Namespaces))
		d.Serial = hex.EncodeToString(id[:8])
		if !ct.target.cfg.NoCapsuleData {
			d.InCapsule = inCapsule
		}
	}
	return d
}

// fill copies data into the data of the command, and fills the rest with zeros.
func fill(c *command, data []byte) nvme.Status {
	clear(c.data[copy(c.data, data):])
	return nvme.Success
}

// must returns the result of an AppendBinary whose error is always nil.
func must(b []byte, _ error) []byte { return b }

// Identifiers of features. Source: NVM Express Base Specification 2.0, 5.27.1.
const (
	featureVolatileCache = 0x06
	featureQueues        = 0x07
	featureEvents        = 0x0B
	featureKeepAlive     = 0x0F
	featureHostID        = 0x81
)

// setFeatures executes the command Set Features.
func (q *queue) setFeatures(c *command) nvme.Status {
	ct, value := q.controller, c.sqe().Uint32(44)
	switch feature := c.sqe().Uint8(40); {
	case feature == featureQueues && ct.subsystem != nil:
		return q.grantQueues(c, value)
	case feature == featureEvents && value == 0:
		return nvme.Success
	case feature == featureKeepAlive:
		old := ct.keepAlive
		ct.keepAlive = time.Duration(value) * time.Millisecond
		if old == 0 {
			ct.watchKeepAlive()
		}
		return nvme.Success
	case feature == featureHostID:
		return nvme.SequenceError.Final()
	}
	return nvme.InvalidField.Final()
}

// grantQueues answers how many I/O queues the host may connect. The parameter value is
// the number that the host wants: submission queues in bits 15:0, completion queues in
// bits 31:16, both minus 1.
func (q *queue) grantQueues(c *command, value uint32) nvme.Status {
	submission, completion := value&0xFFFF, value>>16
	if submission == 0xFFFF || completion == 0xFFFF {
		return nvme.InvalidField.Final()
	}
	t := q.target
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(int(min(submission, completion))+1, t.cfg.Queues)
	q.controller.granted = n
	c.result = uint64(n-1) | uint64(n-1)<<16
	return nvme.Success
}

// getFeatures executes the command Get Features.
func (q *queue) getFeatures(c *command) nvme.Status {
	ct := q.controller
	switch c.sqe().Uint8(40) {
	case featureVolatileCache:
		c.result = 1
	case featureQueues:
		n := uint64(max(ct.granted, 1) - 1)
		c.result = n | n<<16
	case featureEvents:
		c.result = 0
	case featureKeepAlive:
		c.result = uint64(ct.keepAlive / time.Millisecond)
	default:
		return nvme.InvalidField.Final()
	}
	return nvme.Success
}
