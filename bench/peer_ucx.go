package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// A ucx is UCX, measured by its own ucx_perftest: active messages of the protocol
// layer (UCP), both sides polling. It is a runner.
type ucx struct {
	program string
	least   int              // messages in a test
	rates   map[Case]float64 // messages a second, about: they decide how many are sent
}

func newUCX() *ucx { return &ucx{program: "ucx_perftest", least: ucxLeast, rates: map[Case]float64{}} }

func (u *ucx) Name() string { return "ucx" }

func (u *ucx) Missing() error {
	if _, err := exec.LookPath(u.program); err != nil {
		return fmt.Errorf("%w; on Debian: apt-get install ucx-utils", err)
	}
	return nil
}

func (u *ucx) Cases(o options) (cases []Case) {
	if client, _ := processors(); client < 0 {
		return nil // two that never wait need a processor each
	}
	for _, workload := range []string{workPingPong, workStream} {
		for _, c := range casesOf(workload, o) {
			// Its window is of sends that it still has to hand over; others have
			// an answer for each, which makes one in flight another thing.
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

// What a test has at least: more messages than its percentiles are of. It is also
// enough to see how long one takes.
const (
	ucxLeast = 2500
	ucxMost  = 1_000_000_000
)

func (u *ucx) Run(ctx context.Context, c Case) (row Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.For+2*hangTime)
	defer cancel()
	if u.rates[c] == 0 {
		trial, err := runUCX(ctx, u.program, ucxBatch{c, u.least})
		if err != nil {
			return row, err
		}
		u.rates[c] = trial.rate()
	}
	batch := ucxBatch{Case: c}
	messages := u.rates[c] * c.For.Seconds() / float64(len(batch.tests()))
	batch.messages = int(min(max(messages, float64(u.least)), ucxMost))
	measured, err := runUCX(ctx, u.program, batch)
	if err != nil {
		return row, err
	}
	return measured.row(c), nil
}

// A ucxBatch is the tests of a case, of so many messages each. A test of latency
// reports one percentile, so there is one for each of them.
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

// A ucxRun is what running a batch gave.
type ucxRun struct {
	figures  []ucxFigure // one for each test
	sent     int         // messages, with those for warming up
	cpu      time.Duration
	switches uint64
}

// rate is that of all tests together.
func (r *ucxRun) rate() float64 {
	var seconds float64 // of a message in each
	for _, f := range r.figures {
		seconds += 1 / f.Rate
	}
	return float64(len(r.figures)) / seconds
}

// row makes a row of it. In a ping-pong the messages of both sides count, and
// latency is half a round trip.
func (r *ucxRun) row(c Case) Row {
	row := Row{Case: c, MsgsPerSec: r.rate()}
	if c.Workload == workPingPong {
		const ways = 2
		row.MsgsPerSec /= ways
		row.P50 = ways * float64(r.figures[0].Percentile)
		row.P99 = max(row.P50, ways*float64(r.figures[1].Percentile)) // they are of other messages
		row.P999 = max(row.P99, ways*float64(r.figures[2].Percentile))
	}
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	row.CPU = float64(r.cpu) / float64(r.sent)
	row.CtxSwitches = float64(r.switches) / float64(r.sent)
	return row
}
