package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// A task is a case, the runner that measures the case, and the rows that were measured
// so far.
type task struct {
	runner runner
	Case
	rounds []Row
}

// A plan is the list of cases in the order of measurement. A run consists of several
// rounds, and each round measures every case once. Cases that differ only in the peer are
// measured one after another. The machine is then in about the same state for all peers
// that are compared.
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

// steps returns the number of measurements in all rounds.
func (p *plan) steps() int { return p.rounds * len(p.tasks) }

// run measures until all cases are done or ctx ends. It calls onStart before each
// measurement. If a measurement fails, run calls onFailure and goes on with the next
// case.
func (p *plan) run(ctx context.Context, onStart func(Case), onFailure func(Case, error)) {
	for range p.rounds {
		for _, t := range p.tasks {
			if ctx.Err() != nil {
				return
			}
			onStart(t.Case)
			row, err := t.runner.Run(ctx, t.Case)
			switch {
			case ctx.Err() != nil: // ctx has ended, so this row is incomplete and is not kept.
				return
			case err != nil:
				onFailure(t.Case, err)
			default:
				t.rounds = append(t.rounds, row)
			}
		}
	}
}

// rows returns one row for each case: the median of the rows that were measured. It
// leaves out cases without a complete row.
func (p *plan) rows() (rows []Row) {
	for _, t := range p.tasks {
		if len(t.rounds) > 0 {
			rows = append(rows, median(t.rounds))
		}
	}
	return rows
}

// median returns the row in the middle when the rows are sorted by p50, or by rate if
// single messages are not timed. With an even number of rows, two rows are in the
// middle, and median returns the one with the smaller p50 or the higher rate.
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
