// Command echo measures round trips to a server over RDMA. Without flags, it starts the
// server itself. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) (status int) {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return latency.ExitOK
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second Ctrl-C kills the process
		if opts.untilEOF {
			// Ctrl-C goes to both processes of the demo. The client reacts and stops the server.
			signal.Ignore(os.Interrupt)
			go func() { io.Copy(io.Discard, os.Stdin); stop() }()
		}
		switch {
		case opts.listen != "":
			err = serve(ctx, opts, stdout, stderr)
		case opts.connect != "":
			status, err = connect(ctx, opts, stdout, stderr)
		default:
			status, err = demo(ctx, opts, stdout, stderr)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "echo:", err)
		return latency.ExitFailed
	}
	return status
}

// demo runs the server in a second process, and the client in this one.
func demo(ctx context.Context, opts *options, stdout, stderr io.Writer) (status int, err error) {
	client, listen := *opts, netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if opts.path == soft.PathWire {
		if listen, client.from = latency.Loopback(); opts.from.IsValid() {
			client.from = opts.from
		}
	}
	// Both processes send and receive the same packets, so only the client captures.
	server := exec.Command("/proc/self/exe", append(opts.given, "-capture=", "-until-eof", "-listen", netip.AddrPortFrom(listen, 0).String())...)
	input, untilEOF := io.Pipe()
	server.Stdin, server.Stderr = input, stderr
	output, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return latency.ExitFailed, err
	}
	// If the server fails, it prints its error instead.
	fmt.Fscanf(output, "listening on %s", &client.connect)
	if status = latency.ExitFailed; client.connect != "" {
		status, err = connect(ctx, &client, stdout, stderr)
	}
	untilEOF.Close()
	defer time.AfterFunc(2*shutdownTime, func() { server.Process.Kill() }).Stop() // if the server hangs
	if exit := server.Wait(); server.ProcessState.ExitCode() < 0 {                // killed by a signal
		err = errors.Join(err, fmt.Errorf("server process: %w", exit))
	}
	return max(status, min(server.ProcessState.ExitCode(), latency.ExitFailed)), err
}

// options has the checked values of the flags.
type options struct {
	latency.Settings
	listen, connect, capture string
	path                     soft.Path
	from                     netip.Addr
	privateData, reject      string
	duration                 time.Duration
	cpus                     []int // one for each loop of this process; nil: the loops are not pinned
	json, untilEOF           bool
	given                    []string // the flags that were given
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	var list string
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints the error
	f.StringVar(&o.listen, "listen", "", "run the server at this `host:port`; port 0 means any free port, no host means all addresses")
	f.StringVar(&o.connect, "connect", "", "run the client of a server at this `host:port`; no host means this host")
	f.TextVar(&o.from, "from", netip.Addr{}, "client: connect from this `address`")
	f.StringVar(&o.Provider, "provider", "auto", "auto, soft or rdmacore")
	f.TextVar(&o.path, "path", soft.PathAuto, "path of the soft device: auto, local or wire")
	f.StringVar(&o.capture, "capture", "", "soft device: write all packets to this new `file`, for Wireshark; it has the payloads too")
	f.TextVar(&o.Mode, "mode", reactor.IdleAdaptive, "what an idle loop does: event (sleep), adaptive (spin, then sleep) or busy (spin)")
	f.IntVar(&o.Size, "size", 64, "`bytes` of a message; for a server the largest message: use the client's size")
	f.IntVar(&o.Count, "count", 100_000, "`messages` to send ping-pong, over all connections; 0 skips it")
	f.IntVar(&o.InFlight, "inflight", 32, "`messages` in flight on each connection while streaming; size x inflight x conns is at most 1 GiB")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "how long to stream; 0 skips it")
	f.IntVar(&o.Connections, "conns", 1, "connections")
	f.IntVar(&o.Loops, "loops", 1, "event loops of each process")
	f.StringVar(&list, "cpus", "", "`list` of processors to pin loops to, as 0,2-3: the client's loops first, then the server's")
	f.StringVar(&o.privateData, "private-data", "", "`text` to send with the connection request; the server returns it")
	f.StringVar(&o.reject, "reject", "", "server: reject every request with this `text`")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVar(&o.untilEOF, "until-eof", false, "server: stop at the end of standard input instead of at Ctrl-C")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		f.Usage()
	}
	if err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	cpus, err := latency.ParseCPUs(list)
	if err != nil {
		return nil, fmt.Errorf("-cpus %w", err)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	busy, loops := o.Mode == reactor.IdleBusy, o.Loops
	o.cpus = latency.Place(cpus, o.Loops, busy, o.listen != "")
	if o.listen == "" && o.connect == "" {
		loops *= 2 // the demo has two processes, of which the client warns
	}
	if text := latency.Crowded(cpus, loops); text != "" && busy && !o.untilEOF {
		fmt.Fprintln(stderr, "echo: -mode busy:", text)
	}
	f.Visit(func(f *flag.Flag) { o.given = append(o.given, "-"+f.Name+"="+f.Value.String()) })
	return &o, nil
}

// check returns the first error in the values of the flags.
func (o *options) check() (err error) {
	must := func(ok bool, format string, args ...any) {
		if !ok && err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	within := func(name string, value, least, most int) {
		must(value >= least && value <= most, "-%s %d: must be %d to %d", name, value, least, most)
	}
	must(o.listen == "" || o.connect == "", "-listen and -connect exclude each other")
	within("size", o.Size, 0, 1<<20)
	within("count", o.Count, 0, 1<<30)
	within("inflight", o.InFlight, 1, 1<<12)
	within("conns", o.Connections, 1, 1<<16)
	within("loops", o.Loops, 1, 1<<10)
	must(o.duration >= 0, "-duration %v: must not be negative", o.duration)
	must(o.Count > 0 || o.duration > 0, "-count 0 -duration 0: nothing to measure")
	must(int64(o.Size)*int64(o.InFlight)*int64(o.Connections) <= 1<<30,
		"-size %d -inflight %d -conns %d: the product must be at most %d", o.Size, o.InFlight, o.Connections, 1<<30)
	n, most := len(o.privateData), cm.MaxPrivateData(cm.TCP, cm.MessageConnect)
	must(n <= most, "-private-data: %d bytes exceed the limit of %d", n, most)
	n, most = len(o.reject), cm.MaxPrivateData(cm.TCP, cm.MessageReject)
	must(n <= most, "-reject: %d bytes exceed the limit of %d", n, most)
	return err
}
