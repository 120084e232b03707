package main

import "runtime"

// workers has the work of the goroutines that make the answers in workWorkers.
type workers chan func()

// startWorkers starts a goroutine for each processor that the process uses. In other
// workloads the result is nil.
func startWorkers(s *spec) workers {
	if s.Workload != workWorkers {
		return nil
	}
	const waiting = 1024 // Arbitrary: more messages are not in flight.
	w := make(workers, waiting)
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for work := range w {
				work()
			}
		}()
	}
	return w
}
