//go:build linux

package connmgr

// A jobTarget is the part of a madConn or madListener that queues jobs for the ID's
// present channel.
type jobTarget struct {
	mux    *madMux
	ch     *channel // channel of the ID; written with the multiplexer's lock held
	closed bool     // true after closeTarget; the multiplexer's lock guards it
}

// enqueue queues a job that runs with the lock of the channel held. It returns false if
// the job was dropped. The caller holds the multiplexer's lock.
func (t *jobTarget) enqueue(kind jobKind, run func()) bool {
	ch := t.ch
	return ch.inbox.add(job{kind, t, run})
}

// onChannel reports whether the job can run on ch, which is locked. If the ID has moved
// to another channel, onChannel queues the job there.
func (t *jobTarget) onChannel(ch *channel, j job) bool {
	t.mux.mu.Lock()
	defer t.mux.mu.Unlock()
	if t.closed {
		return false
	}
	if t.ch != ch {
		t.enqueue(j.kind, j.run)
	}
	return t.ch == ch
}

// setChannel records that the ID has moved to another channel, and returns the old
// channel. The caller holds the locks of both channels.
func (t *jobTarget) setChannel(to *channel) (from *channel) {
	t.mux.mu.Lock()
	defer t.mux.mu.Unlock()
	from, t.ch = t.ch, to
	return from
}

// closeTarget drops all queued jobs and all later jobs of the target. The caller holds
// the multiplexer's lock.
func (t *jobTarget) closeTarget() { t.closed = true }
