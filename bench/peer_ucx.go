package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// A ucx measures UCX with UCX's own ucx_perftest: active messages of the protocol layer
// (UCP) with both sides polling. It implements runner.
type ucx struct {
	program     string
	minMessages int              // Smallest number of messages in a test.
	rates       map[Case]float64 // Estimated messages a second. They determine how many are sent.
}

func newUCX() *ucx {
	return &ucx{program: "ucx_perftest", minMessages: ucxMinMessages, rates: map[Case]float64{}}
}

func (u *ucx) Name() string { return "ucx" }

func (u *ucx) Missing() error {
	if _, err := exec.LookPath(u.program); err != nil {
		return fmt.Errorf("%w; on Debian: apt-get install ucx-utils", err)
	}
	return nil
}

func (u *ucx) Cases(o options) (cases []Case) {
	if client, _ := processors(); client < 0 {
		return nil // Two processes that never sleep need a processor each.
	}
	for _, workload := range []string{workPingPong, workStream} {
		for _, c := range casesOf(workload, o) {
			// ucx_perftest limits the messages that it still has to hand to the
			// transport. The other peers limit the messages without an answer. With a
			// limit of 1 the two cannot be compared.
			if workload == workStream && c.InFlight == 1 {
				continue
			}
			for _, path := range []string{"posix", "tcp"} {
				c.Peer, c.Path, c.Mode = u.Name(), path, "busy"
				if o.wantsCase(c) {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// Bounds of the number of messages in a test. The lower bound is larger than the 2,048
// messages of which ucx_perftest computes percentiles, and enough to estimate the rate.
const (
	ucxMinMessages = 2500
	ucxMaxMessages = 1_000_000_000
)

func (u *ucx) Run(ctx context.Context, c Case) (row Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.For+2*hangTimeout)
	defer cancel()
	if u.rates[c] == 0 {
		trial, err := runUCX(ctx, u.program, ucxBatch{c, u.minMessages})
		if err != nil {
			return row, err
		}
		u.rates[c] = trial.rate()
	}
	batch := ucxBatch{Case: c}
	messages := u.rates[c] * c.For.Seconds() / float64(len(batch.tests()))
	batch.messages = int(min(max(messages, float64(u.minMessages)), ucxMaxMessages))
	measured, err := runUCX(ctx, u.program, batch)
	if err != nil {
		return row, err
	}
	return measured.row(c), nil
}

// A ucxBatch is the tests of a case with the same number of messages each. A latency
// test reports only one percentile, so there is a test for each percentile.
type ucxBatch struct {
	Case
	messages int
}

func (b ucxBatch) tests() (lines []string) {
	name, ranks := "ucp_am_bw", []string{"50"}
	if b.Workload == workPingPong {
		name, ranks = "ucp_am_lat", []string{"50", "99", "99.9"}
	}
	for _, rank := range ranks {
		lines = append(lines, fmt.Sprintf("p%s -t %s -s %d -O %d -w %d -n %d -R %s",
			rank, name, b.Size, b.InFlight, b.warmUp(), b.messages, rank))
	}
	return lines
}

func (b ucxBatch) warmUp() int { return b.messages / 4 }

// A ucxRun is the result of a batch.
type ucxRun struct {
	figures  []ucxFigure // The result of each test.
	sent     int         // Number of messages in all tests, including those of the warm-up.
	cpu      time.Duration
	switches uint64
}

// rate returns the mean rate of all tests.
func (r *ucxRun) rate() float64 {
	var seconds float64 // Seconds for one message in each test.
	for _, f := range r.figures {
		seconds += 1 / f.Rate
	}
	return float64(len(r.figures)) / seconds
}

// row converts the result to a row. In a ping-pong ucx_perftest counts the messages of
// both sides, and reports half of a round trip as the latency.
func (r *ucxRun) row(c Case) Row {
	row := Row{Case: c, MsgsPerSec: r.rate()}
	if c.Workload == workPingPong {
		const ways = 2
		row.MsgsPerSec /= ways
		row.P50 = ways * float64(r.figures[0].Percentile)
		row.P99 = max(row.P50, ways*float64(r.figures[1].Percentile)) // The percentiles come from different tests.
		row.P999 = max(row.P99, ways*float64(r.figures[2].Percentile))
	}
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	row.CPU = float64(r.cpu) / float64(r.sent)
	row.CtxSwitches = float64(r.switches) / float64(r.sent)
	return row
}
