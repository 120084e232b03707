package reactor

import "time"

const (
	// trimEvery is how often a loop looks for what it has no use for any more. What was
	// not used between two looks is given back, and so within 40 s of its last use.
	trimEvery = 20 * time.Second
	// trimPause is how long trim lets the loop do other things between two steps, each of
	// which may take a millisecond.
	trimPause = 4 * time.Millisecond
)

// watchUse has trim called, if it is not to be called already. It is for whoever takes
// more of what trim gives back.
func (n *nic) watchUse() {
	if n.trimmer.pos == 0 {
		n.trimmer.fire = n.trim
		n.loop.setTimer(&n.trimmer, trimEvery)
	}
}

// trim gives back what is not used: memory, one step at a time, and then completion
// queues. It is called again for as long as the nic has buffers.
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
