//go:build cgo && linux

package rdmacore

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// provider implements cm.Provider.
type provider struct {
	users   userCount // counts open objects and event channels
	list    **C.struct_ibv_context
	devices []*device

	mu  sync.Mutex      // protects ids
	ids map[uintptr]*id // open IDs, by the address of their struct rdma_cm_id

	migrating sync.Mutex // lock that is held while an ID moves to another channel
}

// Open opens the RDMA devices that librdmacm finds. Any goroutine may call Open. The caller
// closes the provider after all objects that were created from it.
//
// The error wraps a *verbs.FeatureError if the libraries are missing or older than version 35,
// if the program was built without cgo, or if there is no device or no permission to use it.
// Its text says which. Other errors are those of a device that could not be opened.
//
// Implements: rdma_get_devices(3).
func Open() (cm.Provider, error) {
	const op = "open rdmacore"
	if err := load(); err != nil {
		return nil, operr.Wrap(op, noAccess(err))
	}
	var n C.int
	list, err := C.rdma_get_devices(&n)
	if list == nil || n == 0 {
		if err == nil {
			err = errors.New("the list of devices is empty")
		}
		return nil, operr.Wrap(op, noAccess(whyNoDevice("/", err)))
	}
	p := &provider{list: list, ids: make(map[uintptr]*id)}
	for _, ctx := range unsafe.Slice(list, n) {
		d, err := openDevice(p, ctx)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.devices = append(p.devices, d)
	}
	return p, nil
}

func noAccess(reason error) error {
	return &verbs.FeatureError{
		Feature: "provider rdmacore",
		Reason:  fmt.Errorf("no access to RDMA hardware: %w. The provider soft needs none", reason),
	}
}

// loading protects the C table of functions: two calls of Open write it.
var loading sync.Mutex

// load opens libibverbs and librdmacm, unless the program is linked to them.
func load() error {
	loading.Lock()
	defer loading.Unlock()
	var why [256]C.char
	if C.rl_load(&why[0], C.size_t(len(why))) == 0 {
		return nil
	}
	return fmt.Errorf("%s. rdma-core 35 or later is needed, on Debian the packages libibverbs1, librdmacm1 and ibverbs-providers",
		C.GoString(&why[0]))
}

// Name returns "rdmacore".
func (p *provider) Name() string { return "rdmacore" }

// Devices returns the devices that existed at Open. After Close, the error wraps
// verbs.ErrClosed.
func (p *provider) Devices() ([]verbs.Device, error) {
	if err := p.users.whileOpen(func() error { return nil }); err != nil {
		return nil, operr.Wrap("list devices", err)
	}
	list := make([]verbs.Device, len(p.devices))
	for i, d := range p.devices {
		list[i] = d
	}
	return list, nil
}

// Close closes the provider. While objects or event channels are open, it fails with
// verbs.ErrBusy.
//
// librdmacm keeps devices open. Close releases only devices that were removed, so that a
// later Open can use them when they are back.
//
// Implements: rdma_free_devices(3).
func (p *provider) Close() error {
	var kept error
	err := p.users.close(func() error {
		for _, d := range p.devices {
			d.async.close()
		}
		kept = p.releaseRemoved()
		C.rdma_free_devices(p.list)
		return nil
	})
	return operr.Wrap("close rdmacore", errors.Join(err, kept))
}

// releaseRemoved closes the descriptors of devices that were removed after Open.
//
// Implements: ibv_get_device_list(3), ibv_free_device_list(3).
func (p *provider) releaseRemoved() (err error) {
	var n C.int
	// The list is nil or empty if the host has no device.
	list := C.ibv_get_device_list(&n)
	var present []*C.struct_ibv_device
	if list != nil {
		defer C.ibv_free_device_list(list)
		present = unsafe.Slice(list, n)
	}
	for _, d := range p.devices {
		// A device that was removed and connected again has a new struct ibv_device.
		if !slices.Contains(present, d.ctx.device) {
			err = errors.Join(err, verbsError("release "+d.name, int32(C.rl_release_device(d.ctx))))
		}
	}
	return err
}

// device returns the device that has the context ctx, or nil.
func (p *provider) device(ctx *C.struct_ibv_context) *device {
	i := slices.IndexFunc(p.devices, func(d *device) bool { return d.ctx == ctx })
	if i < 0 {
		return nil
	}
	return p.devices[i]
}

// device implements verbs.Device.
type device struct {
	provider *provider
	ctx      *C.struct_ibv_context
	name     string
	attr     verbs.DeviceAttr
	caps     verbs.Caps
	rxe      bool // true if the device is rxe (Soft-RoCE); see rxe.go
	gidTable int  // number of GIDs that the tables of all ports can hold

	queues  registry
	objects objectTable
	async   *asyncQueue
}

func openDevice(p *provider, ctx *C.struct_ibv_context) (*device, error) {
	d := &device{provider: p, ctx: ctx, name: C.GoString(C.ibv_get_device_name(ctx.device))}
	if err := d.describe(); err != nil {
		return nil, operr.Wrap("open device "+d.name, err)
	}
	async, err := d.openAsync()
	if err != nil {
		return nil, operr.Wrap("open device "+d.name, err)
	}
	d.async = async
	return d, nil
}

// maxInline is the largest inline size, in bytes, that device.describe tries. Arbitrary.
const maxInline = 4096

// maxRdAtomic is the largest limit for READs and atomics that librdmacm accepts. The
// value 255 stands for the limit of the device (struct rdma_conn_param).
const maxRdAtomic = 254

// describe queries the attributes of the device, which never change.
//
// Implements: ibv_query_device(3).
func (d *device) describe() error {
	var a C.struct_ibv_device_attr
	if err := verbsError("query device", int32(C.ibv_query_device(d.ctx, &a))); err != nil {
		return err
	}
	d.attr = verbs.DeviceAttr{
		NodeGUID: fromWire(uint64(a.node_guid)),
		Vendor:   fmt.Sprintf("%#06x", uint32(a.vendor_id)),
		Firmware: C.GoString(&a.fw_ver[0]),

		NumPorts:        int(a.phys_port_cnt),
		NumCompVectors:  max(int(d.ctx.num_comp_vectors), 1),
		MaxQP:           int(a.max_qp),
		MaxQPWR:         min(int(a.max_qp_wr), maxPlaces),
		MaxSGE:          int(a.max_sge),
		MaxInline:       int(C.rl_max_inline(d.ctx, maxInline)),
		MaxCQ:           int(a.max_cq),
		MaxCQE:          int(a.max_cqe),
		MaxMR:           int(a.max_mr),
		MaxMRSize:       uint64(a.max_mr_size),
		MaxPD:           int(a.max_pd),
		MaxAH:           int(a.max_ah),
		MaxSRQ:          int(a.max_srq),
		MaxSRQWR:        min(int(a.max_srq_wr), maxPlaces),
		MaxSRQSGE:       int(a.max_srq_sge),
		MaxQPRdAtom:     uint8(min(max(a.max_qp_rd_atom, 0), maxRdAtomic)),
		MaxQPInitRdAtom: uint8(min(max(a.max_qp_init_rd_atom, 0), maxRdAtomic)),
		LocalCAAckDelay: uint8(a.local_ca_ack_delay) & 31,
	}
	var port C.struct_ibv_port_attr
	for num := 1; num <= d.attr.NumPorts; num++ {
		if err := d.queryPort(uint8(num), &port); err != nil {
			return err
		}
		d.gidTable += int(port.gid_tbl_len)
	}
	d.rxe = a.vendor_id == rxeVendor
	windows := a.device_cap_flags&C.IBV_DEVICE_MEM_WINDOW_TYPE_2B != 0
	if windows {
		d.attr.MaxMW = int(a.max_mw)
	}
	iWARP := d.ctx.device.transport_type == C.IBV_TRANSPORT_IWARP
	d.caps = verbs.Caps{
		Atomics:  a.atomic_cap != C.IBV_ATOMIC_NONE,
		WriteImm: !iWARP,
		SRQ:      a.max_srq > 0,
		// On InfiniBand, address handles need LIDs, which package verbs does not have.
		UD:       !iWARP && port.link_layer == C.IBV_LINK_LAYER_ETHERNET,
		ResizeCQ: C.rl_can_resize(d.ctx) != 0,

		MemoryWindows: windows,
	}
	return nil
}

func (d *device) Name() string           { return d.name }
func (d *device) Caps() verbs.Caps       { return d.caps }
func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// Port returns the current state of a port.
func (d *device) Port(num uint8) (verbs.PortAttr, error) {
	out, err := d.port(num)
	return out, operr.Wrap("query port", err)
}

func (d *device) port(num uint8) (out verbs.PortAttr, err error) {
	if err := d.checkPort(num); err != nil {
		return out, err
	}
	if err := d.provider.users.add(); err != nil {
		return out, err
	}
	defer d.provider.users.remove()
	var a C.struct_ibv_port_attr
	if err := d.queryPort(num, &a); err != nil {
		return out, err
	}
	out = verbs.PortAttr{
		State:      verbs.PortState(a.state),
		MaxMTU:     verbs.MTU(a.max_mtu),
		ActiveMTU:  verbs.MTU(a.active_mtu),
		MaxMsgSize: uint32(a.max_msg_sz),
	}
	out.GIDs, err = d.gids(num)
	return out, err
}

func (d *device) checkPort(num uint8) error {
	return within("port", int(num), 1, d.attr.NumPorts)
}

// queryPort queries a port. The caller has checked that the port exists.
//
// Implements: ibv_query_port(3).
func (d *device) queryPort(num uint8, a *C.struct_ibv_port_attr) error {
	return verbsError("query port", int32(C.rl_query_port(d.ctx, C.uint8_t(num), a)))
}

// gids returns the GID table of a port, without unused entries at the end. Entries for
// RoCE version 1 are zero.
//
// Implements: ibv_query_gid_table(3).
func (d *device) gids(num uint8) ([]verbs.GID, error) {
	if d.gidTable == 0 {
		return nil, nil
	}
	entries := make([]C.struct_ibv_gid_entry, d.gidTable)
	n := C._ibv_query_gid_table(d.ctx, &entries[0], C.size_t(len(entries)), 0, C.sizeof_struct_ibv_gid_entry)
	if n < 0 {
		return nil, verbsError("query GID table", int32(n))
	}
	var list []verbs.GID
	for _, e := range entries[:n] {
		if e.port_num != C.uint32_t(num) || e.gid_type == C.IBV_GID_TYPE_ROCE_V1 {
			continue
		}
		if missing := int(e.gid_index) + 1 - len(list); missing > 0 {
			list = append(list, make([]verbs.GID, missing)...)
		}
		list[e.gid_index] = verbs.GID(e.gid)
	}
	return list, nil
}

// within returns a *verbs.ParamError if value is not in the range from low to high.
func within(field string, value, low, high int) error {
	if value < low || value > high {
		return &verbs.ParamError{
			Field: field, Value: int64(value), Limit: int64(high),
			Reason: fmt.Sprintf("must be from %d to %d", low, high),
		}
	}
	return nil
}

// fromWire converts a number from network byte order to host byte order.
func fromWire(n uint64) uint64 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return n
	}
	return bits.ReverseBytes64(n)
}
