//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// 60,000 requests from 250 addresses. The rate is about 10,000 requests a second, or less
// on a slow machine.
var floodSpec = hostile.Spec{
	// A round has 100 requests and takes about 3 ms. After it, there is a pause of 7 ms.
	From: hostile.FloodAddr(), Sources: 250, Rounds: 600, Interval: 7 * time.Millisecond,
}

// Before the flood, the client opens connections for this time, for comparison.
// Arbitrary.
const quietTime = 6 * time.Second

// The memory is reported for this time after the flood. Arbitrary.
const memoryTime = time.Minute

// flood sends a flood of requests to a server while a client opens connections. It prints
// how long the connections took to open, and the server's memory.
func flood(ctx context.Context, o *options, out io.Writer) error {
	// With such a long duration, the testbed does not shorten the keepalive and the connect
	// timeout of the server; see options.durations.
	o.duration = time.Hour
	s := newTestbed("wire", soft.PathWire, o)
	defer s.kill()
	var err error
	if err = s.startForFlood(); err != nil {
		return err
	}
	pause(ctx, quietTime)
	before, err := s.dialTimes(0)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "before the flood: %v\n", percentiles(before))
	usage, err := hostile.UsageOf(s.server.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	attacker, err := s.start(hostile.RoleFlood, s.user, floodSpec)
	if err != nil {
		return err
	}
	defer attacker.Kill()
	note, err := attacker.Await()
	if err != nil {
		return err
	}
	lasted := time.Since(began)
	during, err := s.dialTimes(len(before))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "during the flood: %v\n", percentiles(during))
	if note, err = attacker.Finish(); err != nil {
		return err
	}
	a := note.Attack
	fmt.Fprintf(out, "flood: %d requests in %v, %d a second; the server sent %.2f bytes for each byte\n",
		a.Sent, lasted.Round(time.Millisecond), int(float64(a.Sent)/lasted.Seconds()), float64(a.ReceivedBytes)/float64(a.SentBytes))
	return s.memoryAfter(ctx, usage.Resident, out)
}

// startForFlood starts a server and a client that opens connections one by one.
func (s *testbed) startForFlood() (err error) {
	if s.server, s.addr, err = s.listenAnywhere(); err != nil {
		return err
	}
	s.steadyClient, err = s.start(hostile.RoleClient, sameUser, hostile.Spec{Messages: 1, RecordDials: true})
	return err
}

// dialTimes returns how long each connection of the client took to open, in order. The
// first connections are skipped.
func (s *testbed) dialTimes(skipped int) ([]time.Duration, error) {
	note, err := s.steadyClient.Report()
	if err != nil {
		return nil, err
	}
	return note.Tally.DialTimes[skipped:], lossOf(note.Tally)
}

// percentiles describes the distribution of times.
func percentiles(times []time.Duration) string {
	if len(times) == 0 {
		return "no connection"
	}
	sorted := slices.Sorted(slices.Values(times))
	at := func(p int) time.Duration {
		return sorted[min(len(sorted)*p/100, len(sorted)-1)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d connections, p50 %v, p99 %v, longest %v", len(sorted), at(50), at(99), at(100))
}

// memoryAfter prints the server's memory several times after the flood.
func (s *testbed) memoryAfter(ctx context.Context, before uint64, out io.Writer) error {
	end := time.Now()
	for _, age := range []time.Duration{0, memoryTime / 2, memoryTime} {
		pause(ctx, time.Until(end.Add(age)))
		now, err := hostile.UsageOf(s.server.PID())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "memory of the server %v after the flood: %+.1f MiB; at most %+.1f MiB\n", age,
			(float64(now.Resident)-float64(before))/mebi, (float64(now.Peak)-float64(before))/mebi)
	}
	note, err := s.steadyClient.Finish()
	return errors.Join(err, lossOf(note.Tally))
}
