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
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// Exit statuses.
const (
	exitOK       = 0 // nothing was lost or damaged
	exitFailed   = 1
	exitRejected = 2 // the server turned the connection away
)

// options are the flags, checked.
type options struct {
	listen, connect string
	from            netip.Addr
	provider, path  string
	mode            string
	idle            reactor.IdlePolicy
	size, count     int
	inflight        int
	duration        time.Duration
	conns, loops    int
	cpus            []int
	privateData     string
	reject          string
	json            bool
	untilEOF        bool
}

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

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	var cpus string
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.listen, "listen", "", "be the server, on this `address`; port 0 is any free one")
	f.StringVar(&o.connect, "connect", "", "be the client of a server at this `address`")
	f.Func("from", "client: connect from this `address`", func(text string) (err error) {
		o.from, err = netip.ParseAddr(text)
		return err
	})
	f.StringVar(&o.provider, "provider", "auto", "auto, soft or rdmacore")
	f.StringVar(&o.path, "path", "auto", "path of the soft device: auto, local or wire")
	f.StringVar(&o.mode, "mode", "adaptive", "what an idle loop does: event (sleep), adaptive (spin, then sleep) or busy (spin)")
	f.IntVar(&o.size, "size", 64, "`bytes` of a message")
	f.IntVar(&o.count, "count", 100_000, "`messages` to send ping-pong, over all connections")
	f.IntVar(&o.inflight, "inflight", 32, "`messages` in flight on each connection while streaming")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "how long to stream; 0 skips it")
	f.IntVar(&o.conns, "conns", 1, "connections")
	f.IntVar(&o.loops, "loops", 1, "event loops of each process")
	f.StringVar(&cpus, "cpus", "", "`list` of processors to pin loops to, as 0,2-3: the client's loops first, then the server's")
	f.StringVar(&o.privateData, "private-data", "", "`text` to send with the connection request; the server returns it")
	f.StringVar(&o.reject, "reject", "", "server: turn every request away with this `text`")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVar(&o.untilEOF, "until-eof", false, "server: end with standard input, not with Ctrl-C")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.cpus, err = parseCPUs(cpus); err != nil {
		return nil, err
	}
	return &o, o.check()
}

func (o *options) check() error {
	policies := map[string]reactor.IdlePolicy{
		"event": reactor.IdleEvent, "adaptive": reactor.IdleAdaptive, "busy": reactor.IdleBusy,
	}
	var known bool
	if o.idle, known = policies[o.mode]; !known {
		return fmt.Errorf("-mode %q: it is event, adaptive or busy", o.mode)
	}
	if o.listen != "" && o.connect != "" {
		return errors.New("-listen and -connect exclude each other")
	}
	for _, flag := range []struct {
		name                string
		value, least, limit int
	}{
		{"size", o.size, 0, 1 << 20},
		{"count", o.count, 0, 1 << 30},
		{"inflight", o.inflight, 1, 1 << 12},
		{"conns", o.conns, 1, 1 << 16},
		{"loops", o.loops, 1, 1 << 10},
	} {
		if flag.value < flag.least || flag.value > flag.limit {
			return fmt.Errorf("-%s %d: it is %d to %d", flag.name, flag.value, flag.least, flag.limit)
		}
	}
	if o.duration < 0 {
		return fmt.Errorf("-duration %v: it can not be negative", o.duration)
	}
	return nil
}

// parseCPUs reads a list such as 0,2-3.
func parseCPUs(list string) (cpus []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 12)
		to, err2 := strconv.ParseUint(last, 10, 12)
		if errors.Join(err1, err2) != nil || from > to {
			return nil, fmt.Errorf("-cpus %q: it is a list such as 0,2-3", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// engineConfig is what client and server have in common.
func (o *options) engineConfig(cpus []int) *reactor.Config {
	return &reactor.Config{
		Loops: o.loops,
		CPUs:  cpus,
		Idle:  o.idle,
		// Twice what is in flight: a send keeps its place until it is
		// confirmed, which may be after its echo is back.
		MaxInFlight: 2 * o.inflight,
		MaxMessage:  max(o.size, 1),
	}
}
