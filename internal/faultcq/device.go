package faultcq

import (
	"cmp"
	"errors"
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

var (
	_ verbs.Device      = (*Device)(nil)
	_ verbs.CompChannel = (*Channel)(nil)
	_ verbs.CQ          = (*CQ)(nil)
)

// A Device has completion channels and queues, and nothing else of a device.
type Device struct {
	script Script

	mu       sync.Mutex
	dice     dice
	channels []*Channel // open ones
	counts   Counts
	fail     error // of the next creation
}

// Counts tells what a Device did, over all of its channels.
type Counts struct {
	Raised     int // events, before any fault
	Dropped    int
	Duplicated int
	Delayed    int
	Merged     int
	Spurious   int
}

// New makes a device that follows the script.
func New(script *Script) *Device {
	d := &Device{script: *script, dice: newDice(script.Seed)}
	d.script.MaxCQE = cmp.Or(script.MaxCQE, 1024)
	d.script.Vectors = cmp.Or(script.Vectors, 1)
	return d
}

// Counts returns what the device did so far.
func (d *Device) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// Open is the number of channels and CQs that are open.
func (d *Device) Open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.channels)
	for _, c := range d.channels {
		n += len(c.cqs)
	}
	return n
}

// FailNext makes the next CreateCompChannel or CreateCQ return err.
func (d *Device) FailNext(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// Readable asks the system whether the descriptor of any channel is readable.
func (d *Device) Readable() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		if yes, err := c.bell.readable(); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

// Advance moves time on by one tick: events whose delay is over come, and
// spurious ones.
func (d *Device) Advance() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		c.tick()
	}
}

// between lets the world move on. The lock is not held.
func (d *Device) between() {
	if d.script.Between != nil {
		d.script.Between()
	}
}

// enter begins a call of a CQ or channel; leave ends it.
func (d *Device) enter() {
	d.between()
	d.mu.Lock()
}

func (d *Device) leave() {
	d.mu.Unlock()
	d.between()
}

func (d *Device) takeFailure() error {
	err := d.fail
	d.fail = nil
	return err
}

// CreateCompChannel implements verbs.Device.
func (d *Device) CreateCompChannel(*verbs.CompChannelAttr) (verbs.CompChannel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.takeFailure(); err != nil {
		return nil, err
	}
	bell, err := newBell()
	if err != nil {
		return nil, err
	}
	c := &Channel{dev: d, bell: bell}
	d.channels = append(d.channels, c)
	return c, nil
}

// CreateCQ implements verbs.Device. attr.Channel is a *Channel.
func (d *Device) CreateCQ(attr *verbs.CQAttr) (verbs.CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.takeFailure(); err != nil {
		return nil, err
	}
	channel, ok := attr.Channel.(*Channel)
	if !ok || channel.dev != d {
		return nil, verbs.ErrForeign
	}
	q := &CQ{dev: d, channel: channel, depth: attr.Depth, cookie: attr.Cookie}
	channel.cqs = append(channel.cqs, q)
	return q, nil
}

// Name implements verbs.Device.
func (d *Device) Name() string { return "fault0" }

// Caps implements verbs.Device.
func (d *Device) Caps() verbs.Caps { return verbs.Caps{ResizeCQ: !d.script.NoResize} }

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{NumCompVectors: d.script.Vectors, MaxCQE: d.script.MaxCQE}
}

// Port implements verbs.Device; there is none.
func (d *Device) Port(uint8) (verbs.PortAttr, error) { return verbs.PortAttr{}, unsupported("port") }

// AllocPD implements verbs.Device; there is none.
func (d *Device) AllocPD() (verbs.PD, error) { return nil, unsupported("protection domain") }

// AsyncFD implements verbs.Device; there is none.
func (d *Device) AsyncFD() int { return -1 }

// NextAsync implements verbs.Device; there is never one.
func (d *Device) NextAsync(*verbs.AsyncEvent) (bool, error) { return false, nil }

func unsupported(feature string) error {
	return &verbs.FeatureError{Feature: feature, Reason: errors.New("the device has completion queues only")}
}
