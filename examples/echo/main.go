// Command echo measures round trips to a server over RDMA. Without flags, it starts the
// server itself. See README.md.
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
	exitOK       = 0 // no message was lost or damaged
	exitFailed   = 1
	exitRejected = 2 // the server rejected the connection
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "echo:", err)
		return exitFailed
	}
	if warning := opts.processorWarning(); warning != "" {
		fmt.Fprintln(stderr, "echo:", warning)
	}
	ctx, cancel := stopContext(opts)
	defer cancel()

	status := exitOK
	switch {
	case opts.listen != "":
		err = serve(ctx, opts, stdout, stderr)
	case opts.connect != "":
		status, err = connect(ctx, opts, stdout, stderr)
	default:
		status, err = demo(ctx, opts, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "echo:", err)
		return exitFailed
	}
	return status
}

// stopContext returns a context that ends at Ctrl-C. For the server of the demo, it ends
// with the standard input instead.
func stopContext(opts *options) (context.Context, context.CancelFunc) {
	if !opts.untilEOF {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		// A second Ctrl-C kills the process.
		context.AfterFunc(ctx, cancel)
		return ctx, cancel
	}
	// Ctrl-C goes to both processes of the demo. The client reacts and stops the server.
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// Stop when the input ends or reading it fails.
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}
