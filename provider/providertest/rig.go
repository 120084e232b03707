package providertest

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A wait that takes longer is a hang. Arbitrary.
const waitLimit = 30 * time.Second

// A rig is the device under test, with the objects of every case. One goroutine uses it.
// The end of the test closes all objects in reverse order.
type rig struct {
	checks
	opts     Options
	progress verbs.Progress

	provider cm.Provider
	dev      verbs.Device
	attr     verbs.DeviceAttr
	port     uint8 // the port of dev that has opts.Addr
	gid      int   // index of opts.Addr in the GID table of the port
	pd       verbs.PD

	cms    *cm.EventChannel
	events []event
	queues []*queue
}

func newRig(t *testing.T, open func(t *testing.T) cm.Provider, opts Options, progress verbs.Progress) *rig {
	r := &rig{checks: checks{t}, opts: opts, progress: progress}
	r.provider = open(t)
	r.closing("provider", r.provider.Close)
	r.findDevice()
	r.attr = r.dev.Attr()
	r.pd = r.newPD()
	cms, err := cm.OpenChannel(r.provider)
	r.NoError(err)
	r.closing("event channel", cms.Close)
	r.cms = cms
	return r
}

// findDevice finds the device and port that have opts.Addr in the GID table. If no GID
// table has opts.Addr and it is a loopback address, findDevice uses the first device.
func (r *rig) findDevice() {
	devices, err := r.provider.Devices()
	r.NoError(err)
	r.NotEmpty(devices)
	r.dev, r.port = devices[0], 1
	want := verbs.GIDFromAddr(r.opts.Addr)
	for _, dev := range devices {
		for num := 1; num <= dev.Attr().NumPorts; num++ {
			port, err := dev.Port(uint8(num))
			r.NoError(err)
			if i := slices.Index(port.GIDs, want); i >= 0 {
				r.dev, r.port, r.gid = dev, uint8(num), i
				return
			}
		}
	}
	r.True(r.dev.Caps().LoopbackAddrs && r.opts.Addr.IsLoopback(), "no device owns %v", r.opts.Addr)
}

// closing closes an object at the end of the test. If that fails, the test fails, but the
// other objects are still closed.
func (r *rig) closing(what string, closeObject func() error) {
	r.t.Cleanup(func() {
		if err := closeObject(); err != nil {
			r.t.Errorf("close %s: %v", what, err)
		}
	})
}

// requires skips the case if the device lacks a capability.
func (r *rig) requires(missing func(verbs.Caps) string) { skipUnless(r.t, r.dev.Caps(), missing) }

func (r *rig) newPD() verbs.PD {
	r.t.Helper()
	pd, err := r.dev.AllocPD()
	r.NoError(err)
	r.closing("PD", pd.Close)
	return pd
}

// alloc returns a new region with zeroed memory.
func (r *rig) alloc(pd verbs.PD, size int, access verbs.Access) verbs.MR {
	r.t.Helper()
	mr, err := pd.Alloc(&verbs.AllocAttr{Size: size, Access: access})
	r.NoError(err)
	r.closing("MR", mr.Close)
	return mr
}

// until polls the rig until done() returns true, for at most waitLimit.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(waitLimit)
	for turns := 1; !done(); turns++ {
		if r.turn() {
			continue
		}
		runtime.Gosched()
		if turns%1024 == 0 && time.Now().After(deadline) {
			r.FailNow("no progress while waiting for "+what, "%s", r.describe())
		}
	}
}

// turn polls each queue and the event channel once. It returns true if there was a
// completion or an event. It does not call t.Helper, which walks the stack, because cases
// take millions of turns.
func (r *rig) turn() bool {
	progress := false
	for _, q := range r.queues {
		progress = r.poll(q) || progress
	}
	return r.nextEvent() || progress
}

// describe lists the completions and events that the case has not taken.
func (r *rig) describe() string {
	s := ""
	for i, q := range r.queues {
		s += fmt.Sprintf("queue %d has %v\n", i, q.wcs)
	}
	for _, ev := range r.events {
		s += fmt.Sprintf("event %v, status %d, %v\n", ev.typ, ev.status, ev.err)
	}
	return s
}

// noCompletionsLeft checks that the case has taken all completions.
func (r *rig) noCompletionsLeft() {
	if r.t.Failed() {
		return
	}
	for range 3 {
		r.turn()
	}
	for i, q := range r.queues {
		if len(q.wcs) > 0 {
			r.t.Errorf("completions left on queue %d: %v", i, q.wcs)
		}
	}
}
