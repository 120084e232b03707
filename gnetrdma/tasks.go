package gnetrdma

import (
	"net"
	"sync"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
)

// A taskQueue has the tasks that other goroutines have passed to a loop. It grows by one
// task with each call of AsyncWrite, AsyncWritev, Wake, Close or Execute until the loop
// runs the tasks. The program bounds it: it makes no more such calls before the callbacks
// of earlier ones have run. Any goroutine may call add.
type taskQueue struct {
	mu    sync.Mutex
	state taskState
	list  []task
	spare []task // memory for the next list; only the goroutine of the loop uses it
}

// A taskState says whether the loop will take the tasks of a queue.
type taskState uint8

const (
	// taskIdle: there are no tasks, and the loop was not told to take any. This is the state
	// of a new queue. The method add leads to taskPosted, end to taskEnded.
	taskIdle taskState = iota
	// taskPosted: add has returned true, so its caller tells the loop to take the tasks.
	// The method take leads to taskIdle, end to taskEnded.
	taskPosted
	// taskEnded: the loop has ended and takes no more tasks. The method add fails. This
	// state is the last one.
	taskEnded
)

// add appends a task. If the result is true, the caller makes the loop call take. After
// end the error is errors.ErrEngineInShutdown of gnet.
func (q *taskQueue) add(t task) (post bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == taskEnded {
		return false, gneterrors.ErrEngineInShutdown
	}
	q.list = append(q.list, t)
	post = q.state == taskIdle
	q.state = taskPosted
	return post, nil
}

// take removes and returns all tasks. When the loop has run them, it calls reuse. Only
// the goroutine of the loop calls take and reuse.
func (q *taskQueue) take() []task {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.list
	q.list, q.spare, q.state = q.spare, nil, taskIdle
	return batch
}

// reuse keeps the memory of the result of take for later tasks.
func (q *taskQueue) reuse(batch []task) {
	clear(batch) // The garbage collector may free what the tasks refer to.
	q.spare = batch[:0]
}

// end makes add fail, and returns the tasks that take has not returned.
func (q *taskQueue) end() []task {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.list
	q.list, q.state = nil, taskEnded
	return batch
}

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
	post, err := l.tasks.add(t)
	if post {
		_ = l.reactor.Post(l.runPosted) // It fails if the loop is ending: endTasks follows.
	}
	return err
}

// runTasks runs the tasks that wait. Tasks that they enqueue run later.
func (l *loop) runTasks() {
	batch := l.tasks.take()
	for i := range batch {
		batch[i].perform()
	}
	l.tasks.reuse(batch)
}

// endTasks performs the tasks that wait when the loop has ended. All connections are
// closed then, so asynchronous writes fail.
func (l *loop) endTasks() {
	batch := l.tasks.end()
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
