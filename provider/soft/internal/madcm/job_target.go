//go:build linux

package madcm

// A jobTarget is the part of a madConn or madListener that queues jobs. A job runs on the
// channel to which the ID belongs at that time.
type jobTarget struct {
	mux    *Mux
	ch     *madChannel // channel of the ID; written with the multiplexer's lock held
	closed bool        // true after closeTarget(); guarded by the multiplexer's lock
}

// enqueue queues a job of the target. The job will run with the channel locked. If there
// are too many jobs, the job is dropped and enqueue returns false. The caller holds the
// multiplexer's lock.
func (t *jobTarget) enqueue(j job) bool {
	j.target = t
	return t.ch.add(j)
}

// onChannel reports whether the job j may run on the locked channel ch. If the ID has
// moved to another channel, onChannel queues the job on that channel and returns false.
func (t *jobTarget) onChannel(ch *madChannel, j *job) bool {
	t.mux.mu.Lock()
	defer t.mux.mu.Unlock()
	return t.onLockedChannel(ch, j)
}

// onLockedChannel does the work of onChannel. The caller holds the multiplexer's lock.
func (t *jobTarget) onLockedChannel(ch *madChannel, j *job) bool {
	if t.closed {
		return false
	}
	if t.ch == ch {
		return true
	}
	if !t.ch.add(*j) && j.dropped != nil {
		j.dropped(j)
	}
	return false
}

// setChannel records that the ID has moved to the channel to. It returns the old channel.
// The caller holds the locks of both channels.
func (t *jobTarget) setChannel(to *madChannel) (from *madChannel) {
	t.mux.mu.Lock()
	defer t.mux.mu.Unlock()
	from, t.ch = t.ch, to
	return from
}

// closeTarget makes the channels drop all jobs of the target, including jobs that are
// already queued. The caller holds the multiplexer's lock.
func (t *jobTarget) closeTarget() { t.closed = true }
