package reactor

import (
	"time"

	"github.com/rdmaloop/rdmaloop/internal/timerheap"
)

const (
	// trimEvery is the time between two rounds of trim(). A round releases memory that
	// was not used since the previous round. Memory is released about 40 s after its last
	// use at the latest. The number is arbitrary.
	trimEvery = 20 * time.Second
	// trimPause is the time between two steps of trim(). With steps of up to 1 ms, trim()
	// uses at most 1 ms of every 5 ms. The number is arbitrary.
	trimPause = 4 * time.Millisecond
)

// startTrimTimer makes the next round of trim() begin after trimEvery. If the timer is
// already running, startTrimTimer does nothing.
func (d *loopDevice) startTrimTimer() {
	if !d.trimTimer.Running() {
		d.trimTimer.Owner = timerheap.Func(d.trim)
		d.loop.setTimer(&d.trimTimer, trimEvery)
	}
}

// trim closes an unused shared receive queue. It releases unused memory, one step in
// each call. After the last step it closes unused completion queues. If work is left, it
// sets its timer again.
func (d *loopDevice) trim() {
	if d.sharedRecv != nil {
		d.loop.recordError(d.sharedRecv.closeUnused())
	}
	if d.trimBuffers() {
		d.loop.setTimer(&d.trimTimer, trimPause)
		return
	}
	if d.trimQueues() || d.slab.count > 0 || d.classes.bytes() > 0 {
		d.startTrimTimer()
	}
}

// trimBuffers releases unused memory of one slab. It reports whether this round over all
// slabs has further steps.
func (d *loopDevice) trimBuffers() (more bool) {
	if !d.trimsClasses {
		more, err := d.slab.trim()
		d.loop.recordError(err)
		d.trimsClasses = !more
		if more {
			return true
		}
	}
	more, err := d.classes.trim()
	d.loop.recordError(err)
	if d.trimsClasses = more; more {
		return true
	}
	for c := range d.loop.conns.all() {
		if c.device == d && c.long != nil {
			c.long.shown.trim()
		}
	}
	return false
}
