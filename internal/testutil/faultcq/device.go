package faultcq

import (
	"cmp"
	"errors"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var (
	_ verbs.Device      = (*Device)(nil)
	_ verbs.CompChannel = (*Channel)(nil)
	_ verbs.CQ          = (*CQ)(nil)
)

// A Device is a simulated device that has completion channels and CQs only. It implements
// verbs.Device.
type Device struct {
	script Script

	mu       sync.Mutex
	random   random
	channels []*Channel // open channels
	counts   Counts
	// Error of the next CreateCompChannel or CreateCQ, or nil.
	fail error
}

// Counts has the numbers of events and faults of all channels.
type Counts struct {
	// number of events that the device has raised, including dropped and merged ones
	Raised     int
	Dropped    int
	Duplicated int
	Delayed    int
	Merged     int
	Spurious   int
}

// New creates a device with the faults of the script.
func New(script *Script) *Device {
	d := &Device{script: *script, random: newRandom(script.Seed)}
	d.script.MaxCQE = cmp.Or(script.MaxCQE, 1024)
	d.script.Vectors = cmp.Or(script.Vectors, 1)
	return d
}

// Counts returns the numbers of events and faults since New.
func (d *Device) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// Open returns the number of open channels and CQs.
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

// Readable reports whether the descriptor of any channel is readable.
func (d *Device) Readable() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		if yes, err := fdevent.Readable(c.event.FD(), 0); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

// Advance advances the virtual time by one tick. Delayed and spurious events may arrive.
func (d *Device) Advance() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.channels {
		c.tick()
	}
}

// callBetween calls Script.Between. The caller must not hold the device's lock.
func (d *Device) callBetween() {
	if d.script.Between != nil {
		d.script.Between()
	}
}

// enter begins a method of a CQ or channel. It calls Script.Between and locks the device.
// At the end of the method, leave() unlocks the device and calls Script.Between again.
func (d *Device) enter() {
	d.callBetween()
	d.mu.Lock()
}

func (d *Device) leave() {
	d.mu.Unlock()
	d.callBetween()
}

func (d *Device) takeFailure() error {
	err := d.fail
	d.fail = nil
	return err
}

// CreateCompChannel creates a channel. It ignores the attributes.
func (d *Device) CreateCompChannel(*verbs.CompChannelAttr) (verbs.CompChannel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.takeFailure(); err != nil {
		return nil, err
	}
	event, err := fdevent.NewEvent()
	if err != nil {
		return nil, err
	}
	c := &Channel{dev: d, event: event}
	d.channels = append(d.channels, c)
	return c, nil
}

// CreateCQ creates a CQ. Its channel must belong to this device.
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

// Name returns the name, which all simulated devices share.
func (d *Device) Name() string { return "fault0" }

// Caps returns ResizeCQ. With Script.NoResize, it returns nothing.
func (d *Device) Caps() verbs.Caps { return verbs.Caps{ResizeCQ: !d.script.NoResize} }

// Attr returns the number of completion vectors and the largest depth of a CQ. All other
// fields are zero.
func (d *Device) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{NumCompVectors: d.script.Vectors, MaxCQE: d.script.MaxCQE}
}

// Port fails, because the device has no ports.
func (d *Device) Port(uint8) (verbs.PortAttr, error) { return verbs.PortAttr{}, unsupported("port") }

// Counters fails, because the device has no ports.
func (d *Device) Counters(uint8) ([]verbs.Counter, error) { return nil, unsupported("counters") }

// AllocPD fails, because the device has no protection domains.
func (d *Device) AllocPD() (verbs.PD, error) { return nil, unsupported("protection domain") }

// AsyncFD returns -1, because the device has no asynchronous events.
func (d *Device) AsyncFD() int { return -1 }

// NextAsync returns false, because the device has no asynchronous events.
func (d *Device) NextAsync(*verbs.AsyncEvent) (bool, error) { return false, nil }

func unsupported(feature string) error {
	return &verbs.FeatureError{Feature: feature, Reason: errors.New("faultcq has completion queues only")}
}
