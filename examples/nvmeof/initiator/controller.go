package initiator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// adminSize is the size of the admin queue.
const adminSize = 32

// A Controller is a connection to a subsystem: an admin queue, and I/O queues after
// OpenQueues.
type Controller struct {
	Host  *Host
	Admin *Queue
	IO    []*Queue
	ID    uint16

	addr      netip.AddrPort
	subsystem string
	memory    *reactor.Region // memory for the data of admin commands
}

// Connect connects to a subsystem, and enables the controller.
func (h *Host) Connect(ctx context.Context, addr netip.AddrPort, subsystem string) (*Controller, error) {
	c := &Controller{Host: h, addr: addr, subsystem: subsystem}
	var err error
	if c.memory, err = h.Alloc(64 << 10); err != nil {
		return nil, err
	}
	if c.Admin, err = h.Dial(ctx, addr, 0, adminSize); err != nil {
		return nil, errors.Join(err, c.memory.Close())
	}
	if err = c.enable(ctx); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// enable connects the admin queue and makes the controller ready.
func (c *Controller) enable(ctx context.Context) error {
	id, err := c.connect(ctx, c.Admin, nvme.AnyController)
	if err != nil {
		return err
	}
	c.ID = id
	const enable, sizes = 1, 4<<20 | 6<<16
	if err = c.SetProperty(ctx, nvme.PropertyCC, enable|sizes); err != nil {
		return err
	}
	status, err := c.Property(ctx, nvme.PropertyCSTS, 4)
	if err == nil && status != nvme.StatusReady {
		err = fmt.Errorf("initiator: the controller has the status %#x", status)
	}
	return err
}

// connect sends the Connect command of a queue. It returns the controller's identifier.
func (c *Controller) connect(ctx context.Context, q *Queue, controller uint16) (uint16, error) {
	d := nvme.ConnectData{HostID: c.Host.cfg.ID, Controller: controller, Subsystem: c.subsystem, Host: c.Host.cfg.NQN}
	b, err := d.AppendBinary(nil)
	if err != nil {
		return 0, err
	}
	copy(c.memory.Bytes(), b)
	r := &Request{Data: reactor.Piece{Region: c.memory, Length: len(b)}}
	r.Command[0], r.Command[4] = nvme.Fabrics, nvme.FabricsConnect
	binary.LittleEndian.PutUint16(r.Command[nvme.ConnectQIDAt:], q.id)
	binary.LittleEndian.PutUint16(r.Command[nvme.ConnectQueueSizeAt:], uint16(q.size-1))
	resp, err := q.Do(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("connect queue %d: %w", q.id, err)
	}
	return uint16(resp.Result), nil
}

// SetProperty sets a property of 4 bytes.
func (c *Controller) SetProperty(ctx context.Context, offset, value uint32) error {
	r := &Request{}
	r.Command[0], r.Command[4] = nvme.Fabrics, nvme.FabricsPropertySet
	binary.LittleEndian.PutUint32(r.Command[nvme.PropertyOffsetAt:], offset)
	binary.LittleEndian.PutUint64(r.Command[nvme.PropertyValueAt:], uint64(value))
	_, err := c.Admin.Do(ctx, r)
	return err
}

// Property returns a property of 4 or 8 bytes.
func (c *Controller) Property(ctx context.Context, offset uint32, size int) (uint64, error) {
	r := &Request{}
	r.Command[0], r.Command[4] = nvme.Fabrics, nvme.FabricsPropertyGet
	r.Command[nvme.PropertyAttrAt] = uint8(size / 8)
	binary.LittleEndian.PutUint32(r.Command[nvme.PropertyOffsetAt:], offset)
	resp, err := c.Admin.Do(ctx, r)
	if err != nil {
		return 0, err
	}
	return resp.Result, nil
}

// Log returns n bytes of a log page. The caller owns them.
func (c *Controller) Log(ctx context.Context, id uint8, offset uint64, n int) ([]byte, error) {
	r := &Request{Data: reactor.Piece{Region: c.memory, Length: n}}
	r.Command[0], r.Command[40] = nvme.AdminGetLogPage, id
	words := uint32(n/4 - 1)
	binary.LittleEndian.PutUint16(r.Command[42:], uint16(words))
	binary.LittleEndian.PutUint16(r.Command[44:], uint16(words>>16))
	binary.LittleEndian.PutUint64(r.Command[48:], offset)
	_, err := c.Admin.Do(ctx, r)
	return append([]byte(nil), c.memory.Bytes()[:n]...), err
}

// OpenQueues opens n I/O queues. The parameter size is the number of places of each
// queue.
func (c *Controller) OpenQueues(ctx context.Context, n, size int) error {
	r := &Request{}
	r.Command[0], r.Command[40] = nvme.AdminSetFeatures, 0x07
	binary.LittleEndian.PutUint32(r.Command[44:], uint32(n-1)<<16|uint32(n-1))
	if _, err := c.Admin.Do(ctx, r); err != nil {
		return fmt.Errorf("ask for queues: %w", err)
	}
	for i := range n {
		q, err := c.Host.Dial(ctx, c.addr, uint16(i+1), size)
		if err != nil {
			return err
		}
		c.IO = append(c.IO, q)
	}
	for _, q := range c.IO {
		if _, err := c.connect(ctx, q, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all queues, the I/O queues first.
func (c *Controller) Close(ctx context.Context) (err error) {
	for _, q := range c.IO {
		err = errors.Join(err, q.Close(ctx))
	}
	return errors.Join(err, c.Admin.Close(ctx), c.memory.Close())
}

// Transfer returns a Read or Write command for a number of blocks.
func Transfer(opcode uint8, namespace uint32, block uint64, blocks int, data reactor.Piece) *Request {
	r := &Request{Data: data}
	r.Command[0] = opcode
	binary.LittleEndian.PutUint32(r.Command[4:], namespace)
	binary.LittleEndian.PutUint64(r.Command[40:], block)
	binary.LittleEndian.PutUint16(r.Command[48:], uint16(blocks-1))
	return r
}
