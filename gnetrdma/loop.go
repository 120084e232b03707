package gnetrdma

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// A loop is a gnet.EventLoop on a loop of package reactor.
type loop struct {
	engine  *engine
	reactor *reactor.Loop
	buffer  []byte // input of the connection whose OnTraffic is running

	// Only the goroutine of the loop uses the next fields.
	state   loopState
	open    map[*conn]struct{} // connections for which OnOpen was called, and OnClose was not
	streams int                // number of streams that have not ended
	// drained is closed in the state loopDrained. Any goroutine may wait for it.
	drained chan struct{}

	tasks     taskQueue
	runPosted func() // method runTasks; in a field so that enqueue allocates no memory
}

// A loopState says whether a loop has connections.
type loopState uint8

const (
	// loopOpen: the handler gets new connections. This is the state of a new loop. The
	// method closeConns leads to loopClosing, and the end of the loop to loopDrained.
	loopOpen loopState = iota
	// loopClosing: closeConns was called. No connection is open for the handler. Streams
	// send the output that is left, and a stream that opens is closed without callbacks.
	// The end of the last stream and the end of the loop lead to loopDrained.
	loopClosing
	// loopDrained: all streams that the handler knew have ended, or the loop has ended. The
	// channel drained is closed. This state is the last one.
	loopDrained
)

func newLoop(e *engine, r *reactor.Loop) *loop {
	l := &loop{
		engine: e, reactor: r,
		buffer: make([]byte, e.options.ReadBufferCap),
		open:   map[*conn]struct{}{}, drained: make(chan struct{}),
	}
	l.runPosted = l.runTasks
	return l
}

// Register opens a connection to addr on the loop. The networks of TCP mean those of
// RDMA, so that a handler may use the addresses that it uses with gnet. The value of
// gnet.NewContext becomes the context of the connection. The channel gets one result,
// after OnOpen. Any goroutine may call Register.
func (l *loop) Register(ctx context.Context, addr net.Addr) (<-chan gnet.RegisteredResult, error) {
	if l.engine.stopping.Load() {
		return nil, gneterrors.ErrEngineInShutdown
	}
	if addr == nil {
		return nil, gneterrors.ErrInvalidNetworkAddress
	}
	peer, err := resolvePeer(addr.Network(), addr.String())
	if err != nil {
		return nil, err
	}
	return l.engine.dial(l, peer, gnet.FromContext(ctx))
}

// Enroll is not supported, because a connection of package net has no RDMA connection.
func (l *loop) Enroll(_ context.Context, c net.Conn) (<-chan gnet.RegisteredResult, error) {
	switch {
	case l.engine.stopping.Load():
		return nil, gneterrors.ErrEngineInShutdown
	case c == nil:
		return nil, gneterrors.ErrInvalidNetConn
	}
	return nil, gneterrors.ErrUnsupportedOp
}

// Execute runs a task on the loop. Any goroutine may call it.
func (l *loop) Execute(ctx context.Context, r gnet.Runnable) error {
	return l.Schedule(ctx, r, 0)
}

// Schedule runs a task on the loop after a delay. If the loop ends first, a task without
// a delay runs at the end of the loop, and a task whose delay has not passed does not
// run. Any goroutine may call it.
func (l *loop) Schedule(ctx context.Context, r gnet.Runnable, delay time.Duration) error {
	if l.engine.stopping.Load() {
		return gneterrors.ErrEngineInShutdown
	}
	if r == nil {
		return gneterrors.ErrNilRunnable
	}
	run := func() { _ = r.Run(ctx) } // gnet ignores the error, too
	if delay <= 0 {
		return l.enqueue(task{run: run})
	}
	return l.enqueue(task{run: func() { l.reactor.After(delay, run) }})
}

// Close closes a connection of the loop at once. OnClose runs before it returns. Only
// callbacks of the loop may call it.
func (l *loop) Close(c gnet.Conn) error {
	own, ok := c.(*conn)
	if !ok || own.loop != l {
		return gneterrors.ErrUnsupportedOp
	}
	return own.close(nil)
}

// closeConns closes all connections of the loop, and prevents new ones.
func (l *loop) closeConns() {
	if l.state == loopOpen {
		l.state = loopClosing
	}
	for c := range l.open {
		_ = c.close(nil) // The result is the action, and the engine is stopping already.
	}
	l.checkDrained()
}

// streamEnded is called when a stream of the loop has ended.
func (l *loop) streamEnded() {
	l.streams--
	l.checkDrained()
}

// checkDrained enters loopDrained if all streams have ended after closeConns.
func (l *loop) checkDrained() {
	if l.state == loopClosing && l.streams == 0 {
		l.enterDrained()
	}
}

// end is called when the loop has ended.
func (l *loop) end() {
	l.endTasks()
	if l.state != loopDrained {
		l.enterDrained()
	}
}

func (l *loop) enterDrained() {
	l.state = loopDrained
	close(l.drained)
}

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
