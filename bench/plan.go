package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A task is a case, who runs it, and the rows of the rounds so far.
type task struct {
	runner runner
	Case
	rounds []Row
}

// A plan is what is going to be measured, in order: for each kind of case all
// peers in turn, so that they meet the machine in the same mood; all of that once,
// and then again for each round.
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

// steps is how many measurements there are.
func (p *plan) steps() int { return p.rounds * len(p.tasks) }

// run measures until all is done or ctx ends. show is called before each
// measurement. A measurement that fails is reported and left out; the others go
// on.
func (p *plan) run(ctx context.Context, show func(Case), failed func(Case, error)) {
	for range p.rounds {
		for _, t := range p.tasks {
			if ctx.Err() != nil {
				return
			}
			show(t.Case)
			row, err := t.runner.Run(ctx, t.Case)
			switch {
			case ctx.Err() != nil: // whatever it is, it is not whole
				return
			case err != nil:
				failed(t.Case, err)
			default:
				t.rounds = append(t.rounds, row)
			}
		}
	}
}

// rows has one row for each case of which a round is complete: the median one.
func (p *plan) rows() (rows []Row) {
	for _, t := range p.tasks {
		if len(t.rounds) > 0 {
			rows = append(rows, median(t.rounds))
		}
	}
	return rows
}

// median is the row in the middle by its p50, or by its rate where single
// messages are not timed; of two in the middle the better one.
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
