package target

import (
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// commandState says what a command waits for.
type commandState uint8

const (
	// commandNew: the command is free for use, or receive() decodes its capsule.
	commandNew commandState = iota
	// commandNeedsMemory: the command waits in loop.needMemory until the pool has a
	// buffer for its data.
	commandNeedsMemory
	// commandNeedsRead: the command waits in queue.needRead until fewer READs are in
	// flight, or until the connection can send.
	commandNeedsRead
	// commandReading: the data of the command is on its way from the host. OnCompletion
	// ends the state.
	commandReading
	// commandWorking: a worker has the command. Only loop.finish ends the state.
	commandWorking
	// commandDeferred: a Connect command that waits for the end of earlier writes. Only
	// loop.finish ends the state.
	commandDeferred
	// commandAnswering: the WRITE or the response was not accepted, and the command waits
	// in queue.needSend until the connection can send.
	commandAnswering
	// commandWriting: the host has its response or will get it, but the WRITE before it
	// still uses the buffer. OnCompletion ends the state.
	commandWriting
	// commandHeld: an asynchronous event request, which is answered when there is an
	// event.
	commandHeld
)

// A direction says where the data of a command goes.
type direction uint8

const (
	noData direction = iota
	fromHost
	toHost
)

// A command is a command of the host, from the arrival of its capsule until its response
// is sent and its memory is free. Its queue has a fixed number of them.
type command struct {
	queue *queue
	index int // index of this command in queue.commands
	state commandState
	next  *command // next command in the list that has this command, or nil

	bytes [nvme.CommandSize]byte // copy of the command; see sqe
	// The data of the command is in kept or in buffer, or there is none.

	kept   *reactor.Buffer // capsule of the command, if it has the data; else nil
	buffer memory          // part of the pool for the data
	data   []byte          // data of the command, in kept or in buffer
	dir    direction

	// work executes the command when its data is here, on a worker if it uses a disk.
	work        func(*command) nvme.Status
	usesDisk    bool
	changesDisk bool
	status      nvme.Status
	result      uint64
	// namespace of an I/O command
	namespace *Namespace
	// generation to which a command that changes a disk belongs; nil for other commands
	order *generation
	// key of the command's data at the host that the response makes invalid; 0 means none
	invalidate uint32
}

// sqe returns the fields of the command.
func (c *command) sqe() nvme.Command { return c.bytes[:] }

// reset clears all fields, so that the queue can use c for a new command of the host.
func (c *command) reset() {
	*c = command{queue: c.queue, index: c.index, state: commandNew}
}

// A list has commands in a given state, oldest first.
type list struct{ first, last *command }

func (l *list) empty() bool { return l.first == nil }

func (l *list) push(c *command) {
	if c.next = nil; l.first == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

// pushFront makes c the oldest command.
func (l *list) pushFront(c *command) {
	if c.next = l.first; l.first == nil {
		l.last = c
	}
	l.first = c
}

// pop removes the oldest command. It returns nil if the list is empty.
func (l *list) pop() *command {
	c := l.first
	if c != nil {
		l.first, c.next = c.next, nil
	}
	return c
}

// removeQueue removes the commands of a queue, and passes them to the function release.
func (l *list) removeQueue(q *queue, release func(*command)) {
	old := *l
	*l = list{}
	for c := old.pop(); c != nil; c = old.pop() {
		if c.queue == q {
			release(c)
		} else {
			l.push(c)
		}
	}
}
