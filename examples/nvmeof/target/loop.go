package target

import (
	"sync"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A loop is what the target keeps for one loop of the reactor.
type loop struct {
	target *Target
	loop   *reactor.Loop
	pool   *pool
	// Commands in state commandNeedsMemory, oldest first.
	needMemory list
	// Number of commands in the states commandWorking and commandDeferred.
	working int
	// Number of commands that the loop has received and not released.
	commands int

	scratch [nvme.ResponseSize]byte // memory in which queue.response encodes a response

	mu    sync.Mutex // mutex for the fields below
	ready sync.Cond  // condition that is signaled when a command was added to done
	// done has the commands that a worker has executed. The function finish takes them.
	done   list
	posted bool // true if a call of finish has been posted to the loop
}

// newLoop allocates the buffers of a loop.
func newLoop(t *Target, l *reactor.Loop) (*loop, error) {
	r, err := l.Engine().Alloc(t.cfg.Memory, verbs.AccessLocalWrite)
	if err != nil {
		return nil, err
	}
	state := &loop{target: t, loop: l, pool: newPool(r)}
	state.ready.L = &state.mu
	return state, nil
}

// execute executes a command whose data is here.
func (l *loop) execute(c *command) {
	c.state = commandWorking
	if c.usesDisk && !c.tryDisk() {
		l.working++
		l.target.workers.add(c)
		return
	}
	if !c.usesDisk {
		c.status = c.work(c)
	}
	if c.state == commandWorking {
		c.queue.answer(c)
	}
}

// deferAnswer makes a command wait until worked is called.
func (l *loop) deferAnswer(c *command) {
	c.state = commandDeferred
	l.working++
}

// worked makes the loop answer a command. Any goroutine may call worked.
func (l *loop) worked(c *command) {
	l.mu.Lock()
	l.done.push(c)
	post := !l.posted
	l.posted = true
	l.mu.Unlock()
	l.ready.Signal()
	if post {
		l.post(l.finish)
	}
}

// post calls fn on the loop. Posting only fails when the engine has stopped; OnShutdown
// then finishes the commands.
func (l *loop) post(fn func()) { _ = l.loop.Post(fn) }

// finish answers the commands that are done.
func (l *loop) finish() {
	l.mu.Lock()
	done := l.done
	l.done, l.posted = list{}, false
	l.mu.Unlock()
	for c := done.pop(); c != nil; c = done.pop() {
		l.working--
		if c.queue.ended.Load() {
			c.queue.release(c)
		} else {
			c.queue.answer(c)
		}
	}
}

// drain waits until no command is with a worker. All queues have ended.
func (l *loop) drain() {
	for l.working > 0 {
		l.mu.Lock()
		for l.done.empty() {
			l.ready.Wait()
		}
		l.mu.Unlock()
		l.finish()
	}
}

// checkEmpty reports commands and buffers that were not released. All queues have ended,
// and no command is with a worker.
func (l *loop) checkEmpty() {
	if log := l.target.cfg.Log; log != nil && (l.commands != 0 || l.pool.inUse != 0) {
		log.Error("not released", "commands", l.commands, "buffers", l.pool.inUse)
	}
}

// reportSlow reports callbacks that took longer than slowCallback.
func (l *loop) reportSlow() {
	stats := l.loop.Stats()
	if log := l.target.cfg.Log; log != nil && stats.SlowCallbacks != 0 {
		log.Warn("slow callbacks", "callbacks", stats.SlowCallbacks, "longest", stats.LongestCallback)
	}
}

// serveMemory continues commands that wait for memory, while there is some.
func (l *loop) serveMemory() {
	for c := l.needMemory.first; c != nil; c = l.needMemory.first {
		if !c.queue.takeMemory(c) {
			return
		}
		l.needMemory.pop()
		c.queue.withMemory(c)
	}
}
