// Command bench compares rdmaloop with other networking libraries, and with programs
// that use none, on Linux. See README.md.
//
// plan.go orders the measurements, and state.go chooses the rounds. pair.go and child.go are
// the two processes. driver.go and session.go run workloads on libraries with callbacks, and
// blocking.go on the others. Each peer_*.go is one peer. The directories memory and rdmacore
// are programs of their own: see docs/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // At least one case could not be measured.
)

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		// Only the parent reacts to Ctrl-C. It stops its children.
		signal.Ignore(os.Interrupt)
		os.Exit(status(os.Stderr, runChild(role, os.Stdin, os.Stdout)))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func status(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "bench:", err)
	return exitFailed
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return status(stderr, err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	// A second Ctrl-C kills the process.
	context.AfterFunc(ctx, cancel)

	measure := runAll
	if o.pairs {
		measure = runPairs
	}
	failures, err := measure(ctx, o, stdout, stderr)
	if err != nil {
		return status(stderr, err)
	}
	if failures > 0 {
		return exitFailed
	}
	return exitOK
}

var errNoCase = errors.New("nothing to measure")

// runAll measures the cases that the options select, and prints the rows.
func runAll(ctx context.Context, o options, stdout, stderr io.Writer) (failures int, err error) {
	before, err := earlier(o)
	if err != nil {
		return 0, err
	}
	if text := tooFewProcessors(o, len(latency.AllowedCPUs())); text != "" {
		fmt.Fprintln(stderr, "bench:", text)
	}
	p := newPlan(available(runners(), o, stderr), o)
	if p.steps() == 0 {
		return 0, errNoCase
	}
	failures = measureAll(ctx, p, stderr)
	rows := p.rows()
	if err := output(rows, o, stdout); err != nil || o.compare == "" {
		return failures, err
	}
	return failures, printComparison(stdout, before, figuresOf(rows))
}

// runPairs measures the goals in pairs, and prints the ratios.
func runPairs(ctx context.Context, o options, stdout, stderr io.Writer) (failures int, err error) {
	before, err := earlier(o)
	if err != nil {
		return 0, err
	}
	here := map[string]runner{}
	for _, r := range available(runners(), options{peers: goalPeers(goals())}, stderr) {
		here[r.Name()] = r
	}
	pairs := pairingsOf(goals(), o, here)
	if len(pairs) == 0 {
		return 0, errNoCase
	}
	failures = measurePairs(ctx, pairs, o, here, stderr)
	rows := pairRows(pairs)
	if err := outputPairs(rows, o, stdout); err != nil || o.compare == "" {
		return failures, err
	}
	return failures, printComparison(stdout, before, figuresOfPairs(rows))
}

// earlier returns the figures of the run that -compare names, if any.
func earlier(o options) ([]figure, error) {
	if o.compare == "" {
		return nil, nil
	}
	return readFigures(o.compare, o.pairs)
}

func runners() (all []runner) {
	for _, p := range ownPeers() {
		all = append(all, p)
	}
	return append(all, newUCX())
}

// available returns the runners that can run here. It prints why the other runners can
// not.
func available(all []runner, o options, stderr io.Writer) (here []runner) {
	for _, r := range all {
		if !o.wantsPeer(r.Name()) {
			continue
		}
		if err := r.Missing(); err != nil {
			fmt.Fprintf(stderr, "bench: without %s: %v\n", r.Name(), err)
			continue
		}
		here = append(here, r)
	}
	return here
}

func measureAll(ctx context.Context, p *plan, stderr io.Writer) (failures int) {
	line := newProgress(stderr, p.steps())
	defer line.finish()
	p.run(ctx, line.begin, func(c Case, err error) {
		failures++
		line.failed(c, err)
	})
	return failures
}
