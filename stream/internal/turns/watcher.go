package turns

import (
	"errors"
	"os"
	"time"
)

// watchInterval is the longest time for which a loop without an owner is not armed.
// Shorter times would interrupt programs that poll the loop themselves. Arbitrary.
const watchInterval = time.Millisecond

// watch looks after the loop whenever no goroutine owns it, until the loop ends.
func (l *Loop) watch() {
	defer close(l.watched)
	seen := uint64(0) // value of turns at the last deadline
	for {
		err := l.waitReadable()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // The loop has ended.
		}
		l.Lock()
		if err != nil && l.turns != seen {
			// Other goroutines have run turns since the last deadline.
			seen = l.turns
			l.setDeadline(time.Now().Add(watchInterval))
			l.lock.unlock()
			continue
		}
		l.armed = l.armed && err != nil // If the descriptor is readable, there is work.
		l.settle()
		if l.armed && l.timed {
			l.timed = false
			l.setDeadline(time.Time{})
		}
		if !l.armed {
			l.timed = false // leave() sets the next deadline.
		}
		l.leave()
	}
}

// waitReadable waits until the descriptor of the loop is readable. The error matches
// os.ErrDeadlineExceeded after the deadline, and os.ErrClosed after the end of the loop.
func (l *Loop) waitReadable() error {
	raw, err := l.fd.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(readable)
}

// setDeadline sets the time at which waitReadable returns. The zero time means never.
func (l *Loop) setDeadline(t time.Time) {
	// It fails only if the loop has ended, and then the watcher returns.
	_ = l.fd.SetReadDeadline(t)
}
