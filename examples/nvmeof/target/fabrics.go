package target

import (
	"errors"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
)

// planFabrics decodes a Fabrics command. See plan.
func (q *queue) planFabrics(c *command) (n int, status nvme.Status) {
	switch t := c.sqe().FabricsType(); {
	case t == nvme.FabricsConnect && q.controller == nil:
		c.dir, c.work = fromHost, q.connect
		return nvme.ConnectDataSize, nvme.Success
	case t == nvme.FabricsConnect:
		return 0, nvme.SequenceError.Final()
	case q.controller == nil:
		return 0, nvme.InvalidOpcode.Final()
	case t == nvme.FabricsPropertyGet && q.id == 0:
		c.work = q.getProperty
	case t == nvme.FabricsPropertySet && q.id == 0:
		c.work = q.setProperty
	default:
		return 0, nvme.InvalidOpcode.Final()
	}
	return 0, nvme.Success
}

func (q *queue) getProperty(c *command) nvme.Status {
	size := 4
	if c.sqe().Uint8(nvme.PropertyAttrAt)&7 == 1 {
		size = 8
	}
	value, status := q.controller.property(c.sqe().Uint32(nvme.PropertyOffsetAt), size)
	c.result = value
	return status
}

func (q *queue) setProperty(c *command) nvme.Status {
	if c.sqe().Uint32(nvme.PropertyOffsetAt) != nvme.PropertyCC {
		return nvme.InvalidField.Final()
	}
	q.controller.configure(nvme.Config(c.sqe().Uint64(nvme.PropertyValueAt)))
	return nvme.Success
}

// refuse refuses a Connect command because of a field of the command.
func refuse(c *command, offset int) nvme.Status {
	c.result = uint64(offset)
	return nvme.ConnectParam.Final()
}

// refuseData refuses a Connect command because of a field of its data.
func refuseData(c *command, offset int) nvme.Status {
	const inData = 1 << 16
	return refuse(c, offset|inData)
}

// connect executes a Connect command, whose data has arrived.
func (q *queue) connect(c *command) nvme.Status {
	cmd := c.sqe()
	var data nvme.ConnectData
	if err := data.UnmarshalBinary(c.data); err != nil {
		if name := (*nvme.NQNError)(nil); errors.As(err, &name) {
			return refuseData(c, name.Offset)
		}
		return nvme.DataLengthInvalid.Final()
	}
	switch {
	// The host has sent two Connect commands at once.
	case q.controller != nil:
		return nvme.SequenceError.Final()
	case cmd.Uint16(nvme.ConnectFormatAt) != 0:
		return nvme.ConnectFormat.Final()
	case cmd.Uint16(nvme.ConnectQIDAt) != q.id:
		return refuse(c, nvme.ConnectQIDAt)
	// The size is 0-based. The RDMA connection was accepted for q.size commands.
	case cmd.Uint16(nvme.ConnectQueueSizeAt) == 0, int(cmd.Uint16(nvme.ConnectQueueSizeAt)) >= q.size:
		return refuse(c, nvme.ConnectQueueSizeAt)
	}
	status := nvme.Success
	if q.id == 0 {
		status = q.connectAdmin(c, &data)
	} else {
		status = q.connectIO(c, &data)
	}
	if status == nvme.Success {
		q.noFlowControl = cmd.Uint8(nvme.ConnectAttrAt)&nvme.ConnectNoFlowControl != 0
		q.conn.SetTimeout(0)
		c.result = uint64(q.controller.id)
	}
	return status
}

// connectAdmin makes a new controller for the host.
func (q *queue) connectAdmin(c *command, data *nvme.ConnectData) nvme.Status {
	t := q.target
	sub := t.subsystems[data.Subsystem]
	switch {
	case data.Controller != nvme.AnyController:
		return refuseData(c, nvme.ConnectDataControllerAt)
	case sub == nil && data.Subsystem != nvme.NQNDiscovery:
		return refuseData(c, nvme.ConnectDataSubsystemAt)
	case sub != nil && !sub.allows(data.Host):
		c.result = 1<<16 | nvme.ConnectDataHostAt
		return nvme.ConnectHostRefused.Final()
	}
	ct := t.newController(q, sub, data)
	if ct == nil {
		return nvme.ControllerBusy
	}
	q.controller = ct
	ct.keepAlive = keepAliveTime(sub, c.sqe().Uint32(nvme.ConnectKeepAliveAt))
	ct.heard(q.loop.loop.Now())
	ct.watchKeepAlive()
	return nvme.Success
}

// keepAliveTime returns how long a host may send no command. A host that does not promise
// keep-alives to the discovery subsystem has two minutes.
func keepAliveTime(sub *Subsystem, millis uint32) time.Duration {
	if millis == 0 && sub == nil {
		return 2 * time.Minute
	}
	return time.Duration(millis) * time.Millisecond
}

// connectIO adds an I/O queue to the controller that the host names. The answer waits
// until the host's earlier writes have ended.
func (q *queue) connectIO(c *command, data *nvme.ConnectData) nvme.Status {
	t := q.target
	t.mu.Lock()
	defer t.mu.Unlock()
	ct := t.controllers[data.Controller]
	switch {
	case ct == nil || ct.host != data.Host || ct.hostID != data.HostID:
		return refuseData(c, nvme.ConnectDataControllerAt)
	case ct.subsystem == nil || ct.subsystem.NQN != data.Subsystem:
		return refuseData(c, nvme.ConnectDataSubsystemAt)
	case int(q.id) > ct.granted:
		return refuse(c, nvme.ConnectQIDAt)
	case ct.queues[q.id] != nil, ct.state != controllerReady:
		return nvme.SequenceError.Final()
	}
	ct.queues[q.id] = q
	q.controller = ct
	q.loop.deferAnswer(c)
	ct.writes.afterEarlier(func() { q.loop.worked(c) })
	return nvme.Success
}
