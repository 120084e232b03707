package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A task is a case with its runner and the rows so far.
type task struct {
	runner runner
	Case
	rounds []Row
}

// A plan has the cases in the order of measurement. Each round measures every case once.
type plan struct {
	tasks  []*task
	rounds int
}

func newPlan(runners []runner, o options) *plan {
	p := &plan{rounds: o.rounds}
	for _, r := range runners {
		for _, c := range r.Cases(o) {
			p.tasks = append(p.tasks, &task{runner: r, Case: c})
		}
	}
	slices.SortStableFunc(p.tasks, func(a, b *task) int {
		return cmp.Or(
			cmp.Compare(slices.Index(workloads(), a.Workload), slices.Index(workloads(), b.Workload)),
			cmp.Compare(a.Size, b.Size),
			cmp.Compare(a.InFlight, b.InFlight),
			cmp.Compare(a.Connections, b.Connections),
			cmp.Compare(a.Loops, b.Loops),
		)
	})
	return p
}

// steps returns the number of measurements in all rounds.
func (p *plan) steps() int { return p.rounds * len(p.tasks) }

// run measures until all cases are done or ctx ends. It calls onStart before each
// measurement, and onFailure after each failure.
func (p *plan) run(ctx context.Context, onStart func(Case), onFailure func(Case, error)) {
	for range p.rounds {
		for _, t := range p.tasks {
			if ctx.Err() != nil {
				return
			}
			onStart(t.Case)
			row, err := runBetweenCacheLines(ctx, t.runner, t.Case)
			switch {
			case ctx.Err() != nil: // The measurement was interrupted, so its row is incomplete.
				return
			case err != nil:
				onFailure(t.Case, err)
			default:
				t.rounds = append(t.rounds, row)
			}
		}
	}
}

// runBetweenCacheLines measures a case, and the time of a cache line before and after
// it.
func runBetweenCacheLines(ctx context.Context, r runner, c Case) (Row, error) {
	before := cacheLineTime()
	row, err := r.Run(ctx, c)
	row.CacheLineBefore, row.CacheLineAfter = before, cacheLineTime()
	return row, err
}

// rows returns a row for each case that was measured: the median of its rounds in the
// state that most measurements of the run met.
func (p *plan) rows() (rows []Row) {
	var measured []Row
	for _, t := range p.tasks {
		measured = append(measured, t.rounds...)
	}
	state := commonState(measured)
	for _, t := range p.tasks {
		if len(t.rounds) > 0 {
			rows = append(rows, medianIn(state, t.rounds))
		}
	}
	return rows
}

// median returns the middle row, sorted by p50, or by rate if there is no p50. If there
// are two middle rows, it returns the faster row.
func median(rounds []Row) Row {
	sorted := slices.SortedStableFunc(slices.Values(rounds), func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.P50, b.P50), cmp.Compare(b.MsgsPerSec, a.MsgsPerSec))
	})
	return sorted[(len(sorted)-1)/2]
}

func (c Case) String() string {
	return fmt.Sprintf("%s/%s/%s %s, %d B, %d in flight, %d connections",
		c.Peer, c.Path, c.Mode, c.Workload, c.Size, c.InFlight, c.Connections)
}
