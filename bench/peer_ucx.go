package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// A ucx measures UCX with ucx_perftest, the measuring program of UCX. It uses active
// messages of the protocol layer (UCP), and both sides poll. It implements runner.
type ucx struct {
	program     string
	minMessages int // Smallest number of messages that a test sends.
	// Estimated rate of each case in messages a second. The estimate determines how many
	// messages a test sends.
	rates map[Case]float64
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
		// Each of the two processes needs its own processor, because neither ever
		// sleeps.
		return nil
	}
	for _, workload := range []string{workPingPong, workStream} {
		for _, c := range casesOf(workload, o) {
			// ucx_perftest and the other peers count messages in flight in different
			// ways. ucx_perftest counts those that were not handed to the transport yet,
			// and the other peers count those without an answer. With one message in
			// flight the results cannot be compared.
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

// Bounds of the number of messages in a test. The lower bound is larger than 2,048,
// because ucx_perftest computes percentiles of 2,048 messages. It is also large enough
// to estimate the rate.
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

// A ucxBatch is a list of tests of one case. All tests send the same number of messages.
// A latency test reports only one percentile, so the batch has a test for each
// percentile.
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
	figures []ucxFigure // One result for each test of the batch.
	// Number of messages that all tests sent, including the messages of the warm-up.
	sent     int
	cpu      time.Duration
	switches uint64
}

// rate returns the mean rate of all tests in messages a second.
func (r *ucxRun) rate() float64 {
	var seconds float64 // For each test, the mean time of one message in seconds.
	for _, f := range r.figures {
		seconds += 1 / f.Rate
	}
	return float64(len(r.figures)) / seconds
}

// row converts the result to a row. A row of ping-pong has the number of round trips and
// their times. ucx_perftest reports other figures: it counts the messages of both sides,
// and its latency is half of a round trip.
func (r *ucxRun) row(c Case) Row {
	row := Row{Case: c, MsgsPerSec: r.rate()}
	if c.Workload == workPingPong {
		const ways = 2
		row.MsgsPerSec /= ways
		row.P50 = ways * float64(r.figures[0].Percentile)
		// Each percentile was measured by a test of its own, so a higher percentile may
		// have a shorter time.
		row.P99 = max(row.P50, ways*float64(r.figures[1].Percentile))
		row.P999 = max(row.P99, ways*float64(r.figures[2].Percentile))
	}
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	row.CPU = float64(r.cpu) / float64(r.sent)
	row.CtxSwitches = float64(r.switches) / float64(r.sent)
	return row
}
