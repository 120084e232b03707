package verbstest

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// patience is how long a wait may last before it counts as a hang.
const patience = 30 * time.Second

// A rig is the device under test and what one test process has on it. It
// belongs to the goroutine of its test, which closes everything in the end, in
// the reverse order of its making.
type rig struct {
	*require.Assertions
	t        *testing.T
	opts     Options
	progress verbs.Progress

	provider cm.Provider
	dev      verbs.Device
	attr     verbs.DeviceAttr
	port     uint8 // of dev, the one that owns opts.Addr
	gid      int   // index of opts.Addr on it
	pd       verbs.PD

	cms    *cm.EventChannel
	events []event
	queues []*queue
}

func newRig(t *testing.T, open func(t *testing.T) cm.Provider, opts Options, progress verbs.Progress) *rig {
	r := &rig{Assertions: require.New(t), t: t, opts: opts, progress: progress}
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

// findDevice takes the device and port that own the address. A loopback address
// need not be among the GIDs; the first device serves it then.
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

// closing registers the end of something. A close that fails does not keep the
// others from being tried.
func (r *rig) closing(what string, close func() error) {
	r.t.Cleanup(func() { assert.NoError(r.t, close(), "close %s", what) })
}

// needs leaves the case out when the device says that it lacks something.
func (r *rig) needs(lacks func(verbs.Caps) string) { skipUnless(r.t, r.dev.Caps(), lacks) }

func (r *rig) newPD() verbs.PD {
	r.t.Helper()
	pd, err := r.dev.AllocPD()
	r.NoError(err)
	r.closing("PD", pd.Close)
	return pd
}

// alloc makes memory in pd, all zero.
func (r *rig) alloc(pd verbs.PD, size int, access verbs.Access) verbs.MR {
	r.t.Helper()
	mr, err := pd.Alloc(&verbs.AllocAttr{Size: size, Access: access})
	r.NoError(err)
	r.closing("MR", mr.Close)
	return mr
}

// until drives everything on the rig until done says so.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for turns := 1; !done(); turns++ {
		if r.turn() {
			continue
		}
		runtime.Gosched()
		if turns%1024 == 0 && time.Now().After(deadline) {
			r.FailNow("gave up waiting for "+what, "%s", r.describe())
		}
	}
}

// turn polls every queue and the event channel once, and reports whether
// anything came.
func (r *rig) turn() bool {
	r.t.Helper()
	progress := false
	for _, q := range r.queues {
		progress = r.poll(q) || progress
	}
	return r.nextEvent() || progress
}

// describe tells a failed wait's reader what there was instead.
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

// nothingLeft checks that no completion came that a case did not ask for.
func (r *rig) nothingLeft() {
	if r.t.Failed() {
		return
	}
	for range 3 {
		r.turn()
	}
	for i, q := range r.queues {
		assert.Empty(r.t, q.wcs, "completions left on queue %d", i)
	}
}
