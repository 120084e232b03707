package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// A ucx measures UCX with its program ucx_perftest. On the path ucxTagPath, UCX copies
// messages. On most other paths, it uses active messages, which are not copied.
type ucx struct {
	program     string
	minMessages int // lower bound for the messages in a test
	// Estimated messages a second of each case. The number of messages in a test depends
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
		// Each process needs its own processor, because neither sleeps.
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
		// ucx_perftest does not wait for answers. So its rate with one message in flight
		// can not be compared.
		return c.InFlight > 1
	case workRead, workWrite:
		// UCX has tags for messages only, so the path posix-tag is left out. TCP is left out
		// too, because there a READ takes a millisecond.
		return c.Path == "posix"
	}
	return true
}

// ucxTagPath is the name of a path over shared memory on which UCX sends tagged messages.
const ucxTagPath = "posix-tag"

// ucxTransport returns the name of the UCX transport for a path.
func ucxTransport(path string) string {
	if path == ucxTagPath {
		return "posix"
	}
	return path
}

// Bounds for the number of messages in a test. ucx_perftest computes percentiles from
// 2,048 messages, so the lower bound is above that. The upper bound is arbitrary.
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

// A ucxBatch is a list of tests with the same number of messages. A test reports only
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
	figures []ucxFigure // results of the tests
	// Number of messages in all tests, including the warm-up.
	sent     int
	cpu      time.Duration
	switches uint64
}

// rate returns the mean rate of all tests in messages a second.
func (r *ucxRun) rate() float64 {
	var seconds float64 // sum of the mean times of one message in each test, in seconds
	for _, f := range r.figures {
		seconds += 1 / f.Rate
	}
	return float64(len(r.figures)) / seconds
}

// row converts the result to a row. In a READ, one message is a round trip. In other
// tests both sides send in turn, and ucx_perftest counts the messages of both. There the
// latency is half of a round trip.
func (r *ucxRun) row(c Case) Row {
	row := Row{Case: c, MsgsPerSec: r.rate()}
	if c.timed() {
		ways := 2.
		if c.Workload == workRead {
			ways = 1
		}
		row.MsgsPerSec /= ways
		row.P50 = ways * float64(r.figures[0].Percentile)
		// ucx_perftest measures each percentile in a test of its own, so the measured p99
		// may be below the p50.
		row.P99 = max(row.P50, ways*float64(r.figures[1].Percentile))
		row.P999 = max(row.P99, ways*float64(r.figures[2].Percentile))
	}
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	row.CPU = float64(r.cpu) / float64(r.sent)
	row.CtxSwitches = float64(r.switches) / float64(r.sent)
	return row
}
