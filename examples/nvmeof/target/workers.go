package target

import "sync"

// workers are the goroutines that use the disks. Commands wait for them in the order of
// their arrival.
type workers struct {
	mu      sync.Mutex
	some    sync.Cond // condition that is signaled when waiting or stopped has changed
	waiting list
	stopped bool
	running sync.WaitGroup
}

func newWorkers(n int) *workers {
	w := new(workers)
	w.some.L = &w.mu
	for range n {
		w.running.Go(w.run)
	}
	return w
}

// add makes a worker execute the command. It never waits.
func (w *workers) add(c *command) {
	w.mu.Lock()
	w.waiting.push(c)
	w.mu.Unlock()
	w.some.Signal()
}

// run executes commands until stop is called and none is left. A command is dropped if
// its queue has ended, because its host may have sent the command again already.
func (w *workers) run() {
	for c := w.next(); c != nil; c = w.next() {
		if !c.queue.ended.Load() {
			c.status = c.work(c)
		}
		c.queue.loop.worked(c)
	}
}

// next waits for a command and returns it. It returns nil after stop.
func (w *workers) next() *command {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.waiting.empty() && !w.stopped {
		w.some.Wait()
	}
	return w.waiting.pop()
}

// stop waits until all commands are done, and ends the goroutines.
func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.some.Broadcast()
	w.running.Wait()
}
