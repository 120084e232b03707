package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/perf/benchmath"
)

// Defaults of a run with -pairs. With nine rounds, the 95 % interval of the median goes
// from the second to the eighth ratio. The duration is arbitrary.
const (
	pairRounds   = 9
	pairDuration = 120 * time.Millisecond
)

// A pairing is two cases that are measured one right after the other, with the goals
// that compare them.
type pairing struct {
	ours, theirs Case
	goals        []*goalResult
}

// A goalResult has the ratio of a goal in each round.
type goalResult struct {
	goal   goal
	ratios []float64
	// Smallest and largest round trip of a cache line in nanoseconds.
	lineLow, lineHigh float64
}

// pairingsOf returns pairings for the goals that the options select and that can run
// here.
func pairingsOf(all []goal, o options, here map[string]runner) (pairs []*pairing) {
	for _, g := range all {
		g.ours.For, g.theirs.For = o.duration, o.duration
		_, peerHere := here[g.theirs.Peer]
		if here[g.ours.Peer] == nil || g.theirs.Peer != "" && !peerHere || !o.selectsGoal(g) {
			continue
		}
		var p *pairing
		for _, known := range pairs {
			if known.ours == g.ours && (known.theirs == g.theirs || g.theirs.Peer == "") {
				p = known
			}
		}
		if p == nil {
			p = &pairing{ours: g.ours, theirs: g.theirs}
			pairs = append(pairs, p)
		}
		p.goals = append(p.goals, &goalResult{goal: g})
	}
	return pairs
}

// selectsGoal reports whether the options select our case of a goal.
func (o options) selectsGoal(g goal) bool {
	return o.wantsCase(g.ours) && (len(o.sizes) == 0 || slices.Contains(o.sizes, g.ours.Size))
}

// measurePairs measures each pairing once in every round. The order of the two cases
// changes from round to round. measurePairs returns the number of failures.
func measurePairs(ctx context.Context, pairs []*pairing, o options, here map[string]runner, stderr io.Writer) (failures int) {
	line := newProgress(stderr, o.rounds*len(pairs))
	defer line.finish()
	for round := range o.rounds {
		for _, p := range pairs {
			if ctx.Err() != nil {
				return failures
			}
			line.begin(p.ours)
			err := p.measure(ctx, here, round%2 == 1)
			if err != nil && ctx.Err() == nil {
				failures++
				line.failed(p.ours, err)
			}
		}
	}
	return failures
}

// measure measures both cases and adds the ratios to the goals.
func (p *pairing) measure(ctx context.Context, here map[string]runner, theirsFirst bool) (err error) {
	cases := []Case{p.ours, p.theirs}
	rows := make([]Row, len(cases))
	order := []int{0, 1}
	if theirsFirst {
		slices.Reverse(order)
	}
	for _, i := range order {
		if cases[i].Peer == "" {
			continue
		}
		if rows[i], err = runBetweenCacheLines(ctx, here[cases[i].Peer], cases[i]); err != nil {
			return fmt.Errorf("%v: %w", cases[i], err)
		}
	}
	for _, g := range p.goals {
		g.add(rows[0], rows[1])
	}
	return nil
}

// add adds the ratio of two rows. The row theirs is empty if the goal has no peer.
func (g *goalResult) add(ours, theirs Row) {
	ratio, ok := g.goal.ratio(ours, theirs)
	if !ok {
		return
	}
	g.ratios = append(g.ratios, ratio)
	for _, ns := range []float64{ours.CacheLineBefore, ours.CacheLineAfter, theirs.CacheLineBefore, theirs.CacheLineAfter} {
		if ns > 0 && (g.lineLow == 0 || ns < g.lineLow) {
			g.lineLow = ns
		}
		g.lineHigh = max(g.lineHigh, ns)
	}
}

// A PairRow is the result of a goal in the JSON. Lo and Hi bound the confidence interval
// of the median. They are 0 if there were too few rounds.
type PairRow struct {
	Name       string    `json:"name"`
	Ratios     []float64 `json:"ratios"`
	Median     float64   `json:"median"`
	Lo         float64   `json:"lo"`
	Hi         float64   `json:"hi"`
	Confidence float64   `json:"confidence"`
	Limit      float64   `json:"limit"`
	// Whether a larger ratio is better.
	MoreIsBetter bool `json:"more_is_better"`
	// One of met, missed and undecided. Undecided means that the limit is inside the
	// interval.
	Verdict string `json:"verdict"`
	// Smallest and largest round trip of a cache line in nanoseconds, just before and
	// after the measurements.
	CacheLineLow  float64 `json:"cache_line_low_ns,omitempty"`
	CacheLineHigh float64 `json:"cache_line_high_ns,omitempty"`
}

// confidence is the requested level of the intervals.
const confidence = 0.95

// row computes the row of a goal that has at least one ratio.
func (g *goalResult) row() PairRow {
	thresholds := benchmath.DefaultThresholds
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(g.ratios), &thresholds), confidence)
	r := PairRow{
		Name: g.goal.name(), Ratios: g.ratios, Median: s.Center, Lo: s.Lo, Hi: s.Hi, Confidence: s.Confidence,
		Limit: g.goal.limit, MoreIsBetter: g.goal.metric.moreIsBetter, CacheLineLow: g.lineLow, CacheLineHigh: g.lineHigh,
	}
	r.Verdict = g.goal.verdict(s.Lo, s.Hi)
	if math.IsInf(r.Lo, 0) || math.IsInf(r.Hi, 0) {
		r.Lo, r.Hi, r.Confidence = 0, 0, 0
	}
	return r
}

// pairRows returns the rows of the goals that were measured.
func pairRows(pairs []*pairing) (rows []PairRow) {
	for _, p := range pairs {
		for _, g := range p.goals {
			if len(g.ratios) > 0 {
				rows = append(rows, g.row())
			}
		}
	}
	return rows
}
