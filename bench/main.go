// Command bench compares rdmaloop with other networking libraries, and with programs
// that use none. See README.md.
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
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // At least one case could not be measured.
)

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		// A child ignores Ctrl-C. Its parent stops it.
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
	// Another Ctrl-C kills the process.
	context.AfterFunc(ctx, cancel)

	p := newPlan(available(runners(), o, stderr), o)
	if p.steps() == 0 {
		return status(stderr, errors.New("nothing to measure"))
	}
	failures := measureAll(ctx, p, stderr)
	if err := output(p.rows(), o, stdout); err != nil {
		return status(stderr, err)
	}
	if failures > 0 {
		return exitFailed
	}
	return exitOK
}

func runners() (all []runner) {
	for _, p := range ownPeers() {
		all = append(all, p)
	}
	return append(all, newUCX())
}

// available returns the runners that can run here. For the others it prints the reason.
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
