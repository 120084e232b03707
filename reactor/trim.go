package reactor

import "time"

const (
	// trimEvery is the time between two rounds of trim. Memory or a queue that was not
	// used between two rounds is given back, so within 40 s of its last use. The number
	// is arbitrary.
	trimEvery = 20 * time.Second
	// trimPause is how long the loop does other things between two steps of trim. A step
	// may take a millisecond.
	trimPause = 4 * time.Millisecond
)

// startTrimTimer sets the timer for trim, unless it is set. It is called when the nic opens
// a queue or a chunk that trim can give back.
func (d *loopDevice) startTrimTimer() {
	if d.trimTimer.pos == 0 {
		d.trimTimer.fire = d.trim
		d.loop.setTimer(&d.trimTimer, trimEvery)
	}
}

// trim gives back unused memory, one step at a time, and then unused completion
// queues. It sets its timer again for as long as the nic has buffers.
func (d *loopDevice) trim() {
	more, err := d.slab.trim()
	d.loop.recordError(err)
	if more {
		d.loop.setTimer(&d.trimTimer, trimPause)
		return
	}
	if d.trimQueues() || d.slab.count > 0 {
		d.startTrimTimer()
	}
}
