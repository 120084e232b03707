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

// watchUse sets the timer for trim, unless it is set. It is called when the nic opens
// a queue or a chunk that trim can give back.
func (n *nic) watchUse() {
	if n.trimmer.pos == 0 {
		n.trimmer.fire = n.trim
		n.loop.setTimer(&n.trimmer, trimEvery)
	}
}

// trim gives back unused memory, one step at a time, and then unused completion
// queues. It sets its timer again for as long as the nic has buffers.
func (n *nic) trim() {
	more, err := n.slab.trim()
	n.loop.note(err)
	if more {
		n.loop.setTimer(&n.trimmer, trimPause)
		return
	}
	if n.trimQueues() || n.slab.count > 0 {
		n.watchUse()
	}
}
