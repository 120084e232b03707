package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A task is a case, the runner that measures it, and the rows of the finished rounds.
type task struct {
	runner runner
	Case
	rounds []Row
}

// A plan is the list of cases in the order of measurement. All peers measure the same
// kind of case one after another, so that the state of the machine is about the same
// for them. A round measures every case once, and the rounds follow one another.
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
		)
	})
	return p
}

// steps returns the number of measurements.
func (p *plan) steps() int { return p.rounds * len(p.tasks) }

// run measures until all cases are done or ctx ends. It calls show before each
// measurement. It calls failed for a measurement that fails, and continues with the
// next.
func (p *plan) run(ctx context.Context, show func(Case), failed func(Case, error)) {
	for range p.rounds {
		for _, t := range p.tasks {
			if ctx.Err() != nil {
				return
			}
			show(t.Case)
			row, err := t.runner.Run(ctx, t.Case)
			switch {
			case ctx.Err() != nil: // The measurement was interrupted and is incomplete.
				return
			case err != nil:
				failed(t.Case, err)
			default:
				t.rounds = append(t.rounds, row)
			}
		}
	}
}

// rows returns the median row of each case of which at least one round is complete.
func (p *plan) rows() (rows []Row) {
	for _, t := range p.tasks {
		if len(t.rounds) > 0 {
			rows = append(rows, median(t.rounds))
		}
	}
	return rows
}

// median returns the row with the median p50, or with the median rate if single
// messages are not timed. Of two rows in the middle it returns the better one.
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
