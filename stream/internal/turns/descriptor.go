package turns

import (
	"os"
	"syscall"
	"time"
)

// A descriptor lets the leader wait until the loop has work. The owner of the loop calls
// begin, leaves the loop, calls wait, and calls end when it owns the loop again.
type descriptor struct {
	file  *os.File // duplicate of the loop's descriptor, for which the Go runtime waits
	raw   syscall.RawConn
	state waitState
}

// A waitState says whether the leader waits. Only the owner of the loop uses it.
type waitState uint8

const (
	// waitNone: the leader owns the loop, or there is no leader.
	waitNone waitState = iota
	// waitBegun: the leader has left the loop, and calls wait. The method interrupt leads to
	// waitInterrupted, and end to waitNone.
	waitBegun
	// waitInterrupted: wait returns at once. The method end leads to waitNone.
	waitInterrupted
)

// openDescriptor duplicates fd, the descriptor of a loop.
func openDescriptor(fd int) (d descriptor, err error) {
	if d.file, err = duplicate(fd); err != nil {
		return d, err
	}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		d.close()
	}
	return d, err
}

func (d *descriptor) begin() { d.state = waitBegun }

// wait waits until the descriptor is readable, and then returns true. It returns false
// after interrupt and after close. The caller does not own the loop.
func (d *descriptor) wait() bool { return d.raw.Read(readable) == nil }

// interrupt makes the leader own the loop as soon as it can.
func (d *descriptor) interrupt() {
	if d.state == waitBegun {
		d.state = waitInterrupted
		d.setDeadline(time.Unix(1, 0))
	}
}

func (d *descriptor) end() {
	if d.state == waitInterrupted {
		d.setDeadline(time.Time{})
	}
	d.state = waitNone
}

// setDeadline sets the time at which wait returns. The zero time means never.
func (d *descriptor) setDeadline(t time.Time) {
	_ = d.file.SetReadDeadline(t) // It fails only after close, and then wait returns too.
}

// close makes wait return false.
func (d *descriptor) close() {
	_ = d.file.Close() // The error does not matter, because the descriptor is a duplicate.
}
