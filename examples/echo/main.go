// Command echo measures how long a message takes to a server and back, over
// RDMA. Run without flags it starts the server itself, in a second process.
// See README.md.
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
	exitOK       = 0 // nothing was lost or damaged
	exitFailed   = 1
	exitRejected = 2 // the server turned the connection away
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
	if warning := opts.crowded(); warning != "" {
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

// stopContext ends with Ctrl-C; for a server that belongs to the demo, with its
// standard input, which also ends when the demo is killed.
func stopContext(opts *options) (context.Context, context.CancelFunc) {
	if !opts.untilEOF {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, cancel) // a second Ctrl-C kills
		return ctx, cancel
	}
	// Ctrl-C at a terminal reaches both processes. The client is the one that
	// decides when it is over.
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) // whatever ends it, it is over
		cancel()
	}()
	return ctx, cancel
}
