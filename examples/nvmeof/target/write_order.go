package target

import "sync"

// After a connection is lost, a host sends its writes again and may then overwrite them
// with newer data. A write of the lost connection that still waits for a worker must not
// be stored after that. So each host has a writeOrder. A new I/O queue of the host may
// begin when all writes have ended that the target received earlier.
//
// The writes are divided into generations. A new queue ends the current generation, and
// waits until this generation and all older ones have no writes any more.
type writeOrder struct {
	controllers int // number of controllers of the host; Target.mu protects it

	mu          sync.Mutex
	generations []*generation // generations with writes, oldest first; the last one is current
}

// A generation has the number of writes that have begun in it and not ended.
type generation struct {
	writes  int
	waiting []func() // functions to call when this generation and all older ones have ended
}

func newWriteOrder() *writeOrder { return &writeOrder{generations: []*generation{{}}} }

// begin counts a write. The caller passes the result to end when the write has ended.
func (w *writeOrder) begin() *generation {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.generations[len(w.generations)-1]
	g.writes++
	return g
}

// end ends a write that was stored or dropped.
func (w *writeOrder) end(g *generation) {
	w.mu.Lock()
	g.writes--
	ready := w.ended()
	w.mu.Unlock()
	for _, fn := range ready {
		fn()
	}
}

// afterEarlier calls fn when all writes have ended that began before this call. It may
// call fn before it returns.
func (w *writeOrder) afterEarlier(fn func()) {
	w.mu.Lock()
	current := w.generations[len(w.generations)-1]
	current.waiting = append(current.waiting, fn)
	w.generations = append(w.generations, &generation{})
	ready := w.ended()
	w.mu.Unlock()
	for _, fn := range ready {
		fn()
	}
}

// idle reports whether no write is under way.
func (w *writeOrder) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.generations) == 1 && w.generations[0].writes == 0
}

// ended removes the oldest generations that have no writes, and returns the functions
// that wait for them.
func (w *writeOrder) ended() (ready []func()) {
	for len(w.generations) > 1 && w.generations[0].writes == 0 {
		ready = append(ready, w.generations[0].waiting...)
		w.generations = w.generations[1:]
	}
	return ready
}
