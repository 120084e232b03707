//go:build linux

// Command soak attacks the library for a given time, on both paths. Meanwhile clients
// check every byte of their echoes.
//
//	go run ./internal/hostile/soak -duration 10m
//
// It prints lost and damaged messages, the longest round trip, and the resources of the
// servers. It fails if a message was lost or damaged, or if a server's resources have
// grown.
//
// With the flag -flood, it measures memory and connect times during a flood of connection
// requests.
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
	"time"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

func main() {
	if hostile.IsChild() {
		os.Exit(hostile.Child())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(status)
}

// options has the values of the flags.
type options struct {
	duration time.Duration
	seed     uint64
	every    time.Duration
	verbose  bool
	flood    bool
}

// A durations has times that depend on the length of the soak.
type durations struct {
	// Longest duration of an attack. In this time an attacker can send thousands of
	// packets. Arbitrary.
	attack time.Duration
	// reactor.Config.Transport.Keepalive and ConnectTimeout of the servers. Zero means the default.
	// They determine how long a server keeps the connections of a vanished peer.
	keepalive, connect time.Duration
}

// durations returns the times for a soak of this length. In a short soak, servers must
// notice vanished peers early. Otherwise they would not release their resources before
// the end.
func (o *options) durations() durations {
	if o.duration < 2*time.Minute {
		return durations{attack: 2 * time.Second, keepalive: 5 * time.Second, connect: 10 * time.Second}
	}
	return durations{attack: 4 * time.Second}
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.duration, "duration", 10*time.Minute, "duration of the attacks, at least 20s")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the attacks; 0 takes one from the clock")
	flags.DurationVar(&o.every, "every", 0, "time between two printed states; 0 means a tenth of the duration")
	flags.BoolVar(&o.flood, "flood", false, "measure one flood of requests instead: its cost for the server and for other clients; takes 90s")
	flags.BoolVar(&o.verbose, "v", false, "print each attack when it begins")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.duration < 20*time.Second:
		return o, fmt.Errorf("-duration %v is less than 20s", o.duration)
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	if o.every <= 0 {
		o.every = o.duration / 10
	}
	return o, nil
}

// run runs the command and returns the exit status. It is 0 if no message was lost and no
// server uses more resources at the end.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil && o.flood:
		err = flood(ctx, &o, stdout)
	case err == nil:
		fmt.Fprintf(stdout, "soak: %v; -seed %d repeats these attacks\n", o.duration, o.seed)
		err = soak(ctx, &o, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 1
	}
	fmt.Fprintln(stdout, "soak: passed")
	return 0
}
