package reactor

import "time"

// trimEvery is how often a loop looks for what it has no use for any more. What was not
// used at two looks in a row is given back, and so within 40 s of its last use.
const trimEvery = 20 * time.Second

// watchUse has trim called, if it is not to be called already. It is for whoever takes
// more of what trim gives back.
func (n *nic) watchUse() {
	if n.trimmer.pos == 0 {
		n.trimmer.fire = n.trim
		n.loop.setTimer(&n.trimmer, trimEvery)
	}
}

// trim gives back what is not used, and is called again for as long as there is something
// that could come to be unused.
func (n *nic) trim() {
	if n.trimQueues() {
		n.watchUse()
	}
}
