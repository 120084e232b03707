// Command nvmeof serves disks over NVMe over Fabrics on RDMA. Linux can mount them.
// Without flags, it starts a target in a second process, writes and reads its disk, and
// prints how fast that was. See README.md.
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

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) (status int) {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		ctx, cancel := stopContext(opts)
		defer cancel()
		if opts.listen != "" {
			err = serve(ctx, opts, stdout, stderr)
		} else {
			err = demo(ctx, opts, stdout, stderr)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "nvmeof:", err)
		return 1
	}
	return 0
}

// stopContext returns a context that ends at Ctrl-C or SIGTERM. For the target of the
// demonstration, it ends with the standard input instead.
func stopContext(opts *options) (context.Context, context.CancelFunc) {
	if !opts.untilEOF {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		// A second Ctrl-C kills the process.
		context.AfterFunc(ctx, cancel)
		return ctx, cancel
	}
	// Ctrl-C goes to both processes. The first process stops the second one.
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// Stop when the input ends or reading it fails.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}
