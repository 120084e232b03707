package reactor

import "time"

const (
	// trimEvery is the time between two rounds of trim. A round releases memory that was
	// unused since the previous one, so within 40 s. Arbitrary.
	trimEvery = 20 * time.Second
	// trimPause is the time between two steps of trim, which take up to a millisecond: at
	// most a fifth of the loop's time. Arbitrary.
	trimPause = 4 * time.Millisecond
)

// startTrimTimer sets the timer for trim, when the loopDevice opens a completion queue
// or a chunk that trim can release.
func (d *loopDevice) startTrimTimer() {
	if !d.trimTimer.Running() {
		d.trimTimer.Fire = d.trim
		d.loop.setTimer(&d.trimTimer, trimEvery)
	}
}

// trim releases unused memory, one step in each call, and then unused completion queues.
// It sets its timer again if necessary.
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
