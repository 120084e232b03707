package gnetrdma

import (
	"net"
	"sync"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// A taskQueue has the tasks that other goroutines have passed to a loop. As in gnet, its
// length has no limit. It grows only by calls of this program, for example of AsyncWrite,
// so the program limits it.
type taskQueue struct {
	mu    sync.Mutex
	list  []task
	state taskState

	run   func() // method runTasks of the loop
	spare []task // memory for the next list; only the goroutine of the loop uses it
}

// A taskState says whether the loop will run the tasks of a taskQueue.
type taskState uint8

const (
	// taskIdle: there are no tasks, and the loop was not told to run any.
	taskIdle taskState = iota
	// taskPosted: the loop was told to run the tasks. runTasks leads back to taskIdle.
	taskPosted
	// taskEnded: the loop has ended, and enqueue fails.
	taskEnded
)

// A task is one call that a loop makes for another goroutine.
type task struct {
	kind     taskKind
	c        *conn
	b        []byte
	bs       [][]byte
	callback gnet.AsyncCallback // may be nil
	run      func()             // function that a runTask calls
}

type taskKind uint8

const (
	runTask taskKind = iota
	writeTask
	writevTask
	wakeTask
	closeTask
)

// enqueue passes a task to the loop. Tasks run in the order of the calls. After the end
// of the loop the error is errors.ErrEngineInShutdown of gnet. Any goroutine may call it.
func (l *loop) enqueue(t task) error {
	q := &l.tasks
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == taskEnded {
		return gneterrors.ErrEngineInShutdown
	}
	q.list = append(q.list, t)
	if q.state == taskIdle {
		q.state = taskPosted
		_ = l.reactor.Post(q.run) // It fails if the loop is ending: endTasks follows.
	}
	return nil
}

// runTasks runs the tasks that wait. Tasks that they enqueue run later.
func (l *loop) runTasks() {
	q := &l.tasks
	q.mu.Lock()
	batch := q.list
	q.list, q.state = q.spare, taskIdle
	q.mu.Unlock()
	for i := range batch {
		batch[i].perform()
		batch[i] = task{} // The garbage collector may free what the task refers to.
	}
	q.spare = batch[:0]
}

// endTasks performs the tasks that wait when the loop has ended. All connections are
// closed then, so asynchronous writes fail.
func (l *loop) endTasks() {
	q := &l.tasks
	q.mu.Lock()
	batch := q.list
	q.list, q.state = nil, taskEnded
	q.mu.Unlock()
	for i := range batch {
		batch[i].perform()
	}
}

// perform makes the call.
func (t *task) perform() {
	var err error
	switch t.kind {
	case runTask:
		t.run()
	case writeTask:
		err = t.c.asyncWrite(func() error { _, err := t.c.Write(t.b); return err })
	case writevTask:
		err = t.c.asyncWrite(func() error { _, err := t.c.Writev(t.bs); return err })
	case wakeTask:
		err = t.c.wake()
	case closeTask:
		err = t.c.close(nil)
	}
	if t.callback != nil {
		_ = t.callback(t.c, err) // gnet ignores the result, too
	}
}

// asyncWrite calls write if the connection is open.
func (c *conn) asyncWrite(write func() error) error {
	if c.state != connOpen {
		return net.ErrClosed
	}
	return write()
}
