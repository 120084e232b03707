package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// A ucx measures UCX with its program ucx_perftest. UCX copies messages only on the path
// ucxTagPath. Most other paths use active messages, without a copy.
type ucx struct {
	program     string
	minMessages int // Smallest number of messages that a test sends.
	// Estimated rate of each case in messages a second. The number of messages depends
	// on it.
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
		// Each process needs its own processor, because neither ever sleeps.
		return nil
	}
	for _, workload := range []string{workPingPong, workStream, workRead, workWrite} {
		for _, c := range casesOf(workload, o) {
			for _, path := range []string{"posix", ucxTagPath, "tcp"} {
				c.Peer, c.Path, c.Mode = u.Name(), path, "busy"
				if o.wantsCase(c) && ucxFits(c) {
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// ucxFits reports whether ucx_perftest can measure a case.
func ucxFits(c Case) bool {
	switch c.Workload {
	case workStream:
		// With one message in flight the rates are not comparable, because ucx_perftest
		// does not wait for answers.
		return c.InFlight > 1
	case workRead, workWrite:
		// One-sided operations have no tags. Over TCP, a get takes a millisecond.
		return c.Path == "posix"
	}
	return true
}

// ucxTagPath is shared memory, like the path posix, but for messages with tags.
const ucxTagPath = "posix-tag"

// ucxTransport returns the name of the UCX transport for a path.
func ucxTransport(path string) string {
	if path == ucxTagPath {
		return "posix"
	}
	return path
}

// Bounds of the number of messages in a test. The lower bound is above 2,048, because
// ucx_perftest computes percentiles from 2,048 messages. The upper bound is arbitrary.
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

// A ucxBatch is a list of tests with the same number of messages. A latency test reports
// one percentile, so each percentile needs its own test.
type ucxBatch struct {
	Case
	messages int
}

func (b ucxBatch) tests() (lines []string) {
	ranks := []string{"50"}
	if b.timed() {
		ranks = []string{"50", "99", "99.9"}
	}
	name := b.test()
	for _, rank := range ranks {
		lines = append(lines, fmt.Sprintf("p%s -t %s -s %d -O %d -w %d -n %d -R %s",
			rank, name, b.Size, b.InFlight, b.warmUp(), b.messages, rank))
	}
	return lines
}

// test returns the name of the test.
func (b ucxBatch) test() string {
	name := "ucp_am"
	if b.Path == ucxTagPath {
		name = "tag"
	}
	switch b.Workload {
	case workRead:
		return "ucp_get"
	case workWrite:
		return "ucp_put_lat"
	case workStream:
		return name + "_bw"
	}
	return name + "_lat"
}

func (b ucxBatch) warmUp() int { return b.messages / 4 }

// A ucxRun is the result of a batch.
type ucxRun struct {
	figures []ucxFigure // One result for each test of the batch.
	// Number of messages of all tests, including the warm-up.
	sent     int
	cpu      time.Duration
	switches uint64
}

// rate returns the mean rate of all tests in messages a second.
func (r *ucxRun) rate() float64 {
	var seconds float64 // Sum of the mean times of one message in all tests, in seconds.
	for _, f := range r.figures {
		seconds += 1 / f.Rate
	}
	return float64(len(r.figures)) / seconds
}

// row converts the result to a row. In ping-pong and in WRITEs, which both sides make in
// turn, ucx_perftest counts the messages of both sides, and its latency is half of a
// round trip. A READ is a round trip.
func (r *ucxRun) row(c Case) Row {
	row := Row{Case: c, MsgsPerSec: r.rate()}
	if c.timed() {
		ways := 2.
		if c.Workload == workRead {
			ways = 1
		}
		row.MsgsPerSec /= ways
		row.P50 = ways * float64(r.figures[0].Percentile)
		// Each percentile comes from a separate test, so the measured p99 may be below
		// the p50.
		row.P99 = max(row.P50, ways*float64(r.figures[1].Percentile))
		row.P999 = max(row.P99, ways*float64(r.figures[2].Percentile))
	}
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	row.CPU = float64(r.cpu) / float64(r.sent)
	row.CtxSwitches = float64(r.switches) / float64(r.sent)
	return row
}
