// Command interop implements the protocols of well-known RDMA programs, to test this
// library against other implementations. The client and the server of each protocol are
// handlers of package reactor. The protocol of rstream uses package stream instead.
//
//	this program   other program    Debian package
//	rping          rping            rdmacm-utils
//	cmatose        ucmatose         rdmacm-utils
//	rstream        rstream          rdmacm-utils
//	send_lat       ib_send_lat -R   perftest
//	send_bw        ib_send_bw -R    perftest
//
// On a device that the other program can use, with 192.0.2.1 as the address of the
// server, start the left command first:
//
//	interop rping -listen 192.0.2.1:7174      rping -c -a 192.0.2.1 -C 10 -V
//	rping -s -a 192.0.2.1                     interop rping -connect 192.0.2.1:7174
//
//	interop cmatose -listen 192.0.2.1:7471    ucmatose -s 192.0.2.1
//	ucmatose -b 192.0.2.1                     interop cmatose -connect 192.0.2.1:7471
//
//	interop rstream -listen 192.0.2.1:7471    rstream -s 192.0.2.1 -S 1000
//	rstream -S 1000                           interop rstream -connect 192.0.2.1:7471
//
//	interop send_lat -listen 192.0.2.1:18515  ib_send_lat -R 192.0.2.1
//	ib_send_bw -R                             interop send_bw -connect 192.0.2.1:18515
//
// Here interop stands for go run ./internal/vm/interop. The number and the
// size of the messages must be the same on both sides: -count, -size and -iterations
// here, and -C, -S, -I, -n and -s there. The program can also be both sides, on any
// device.
//
// The exit status is 0 if all messages arrived as expected. make test-vm runs all of
// these pairs on the kernel's Soft-RoCE, and again with the soft device on this side. The
// soft device needs -path wire only if both sides are on one host.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// options has the checked values of the flags.
type options struct {
	listen   bool
	addr     netip.AddrPort
	provider string
	path     soft.Path
	size     int // bytes in a message
	count    int // number of messages or rounds
	conns    int
	refused  int
	// The next options are those of rstream.
	iterations int
	sizes      string // "one", "four" or "all"
	verify     bool
	buffer     int // size of the stream's buffers in bytes; 0 means the default
	inFlight   int // operations that may be outstanding; 0 means the default
}

// A protocol is the protocol of one program.
type protocol struct {
	size, count int // defaults of the flags -size and -count
	least, most int // smallest and largest value of the flag -size, in bytes
	server      func(*endpoint) reactor.Handler
	client      func(*endpoint) reactor.Handler
	// run runs the protocol without an endpoint, unless it is nil.
	run func(*options, cm.Provider, io.Writer) error
}

func protocols() map[string]protocol {
	return map[string]protocol{
		"rping":    {64, 10, 26, 65535, newRpingServer, newRpingClient, nil},
		"cmatose":  {100, 10, 1, 65536, newCmatoseServer, newCmatoseClient, nil},
		"send_lat": {2, 1000, 1, 65536, newLatencyServer, newLatencyClient, nil},
		"send_bw":  {65536, 1000, 1, 65536, newBandwidthServer, newBandwidthClient, nil},
		"rstream":  {1000, 1000, 1, 1 << 23, nil, nil, runRstream},
	}
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) (status int) {
	opts, p, err := parse(args, stderr)
	if err == nil {
		err = opts.run(p, stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "interop:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*options, protocol, error) {
	all := protocols()
	names := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	if len(args) == 0 {
		return nil, protocol{}, fmt.Errorf("missing protocol, one of: %s", names)
	}
	p, ok := all[args[0]]
	if !ok {
		return nil, p, fmt.Errorf("unknown protocol %q, must be one of: %s", args[0], names)
	}
	var o options
	var listen, connect string
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&listen, "listen", "", "run the server at this `address`; port 0 means any free port")
	f.StringVar(&connect, "connect", "", "run the client of a server at this `address`")
	f.StringVar(&o.provider, "provider", "auto", "auto, soft or rdmacore")
	f.TextVar(&o.path, "path", soft.PathAuto, "path of the soft device: auto, local or wire")
	f.IntVar(&o.size, "size", p.size, "`bytes` of a message")
	f.IntVar(&o.count, "count", p.count, "messages, or rounds")
	f.IntVar(&o.conns, "conns", 1, "connections that the server accepts; cmatose only")
	f.IntVar(&o.iterations, "iterations", 1, "how often both sides send -count transfers; rstream only")
	f.StringVar(&o.sizes, "sizes", "one", "one (the flag -size), four, or all; four and all ignore -count and -iterations; rstream only")
	f.BoolVar(&o.verify, "verify", false, "check the data; rstream only")
	f.IntVar(&o.buffer, "buffer", 0, "`bytes` of each buffer of a stream; 0 means the default; rstream only")
	f.IntVar(&o.inFlight, "in-flight", 0, "`operations` that a stream may have outstanding; 0 means the default; rstream only")
	f.IntVar(&o.refused, "refused", 0, "further connections, which the server rejects; cmatose only")
	if err := f.Parse(args[1:]); err != nil {
		return nil, p, err
	}
	o.listen = listen != ""
	var err error
	if o.addr, err = netip.ParseAddrPort(listen + connect); err != nil {
		return nil, p, fmt.Errorf("need -listen or -connect: %w", err)
	}
	return &o, p, o.check(p)
}

func (o *options) check(p protocol) error {
	fewest := 1
	if o.listen {
		fewest = 0 // with -conns 0, a server rejects all connections
	}
	for _, flag := range []struct {
		name                string
		value, least, limit int
	}{
		{"size", o.size, p.least, p.most},
		{"count", o.count, 1, 1 << 30},
		{"conns", o.conns, fewest, 1 << 10},
		{"iterations", o.iterations, 1, 1 << 30},
		{"buffer", o.buffer, 0, 1 << 30},
		{"in-flight", o.inFlight, 0, 1 << 10},
		{"refused", o.refused, 0, 1 << 10},
	} {
		if flag.value < flag.least || flag.value > flag.limit {
			return fmt.Errorf("-%s %d: must be %d to %d", flag.name, flag.value, flag.least, flag.limit)
		}
	}
	if !slices.Contains([]string{"one", "four", "all"}, o.sizes) {
		return fmt.Errorf("-sizes %q: must be one, four or all", o.sizes)
	}
	return nil
}

// A closing connection waits for its operations at most this long. The other program may
// be slow.
const drainTimeout = 30 * time.Second

// run runs one endpoint until its protocol has finished or failed.
func (o *options) run(p protocol, stdout io.Writer) error {
	device, err := provider.Open(o.provider, &provider.Config{Soft: &soft.Config{Path: o.path}, Addr: o.addr.Addr()})
	if err != nil {
		return err
	}
	defer device.Close()
	if p.run != nil {
		return p.run(o, device, stdout)
	}
	s := &endpoint{opts: o, out: stdout}
	handler := p.client(s)
	if o.listen {
		handler = p.server(s)
	}
	s.engine, err = reactor.New(device, handler, &reactor.Config{MaxMessage: max(o.size, minMaxMessage), Limits: reactor.Limits{DrainTimeout: drainTimeout}})
	if err != nil {
		return err
	}
	if err := errors.Join(s.engine.Start(), s.start()); err != nil {
		s.engine.Stop()
		return errors.Join(err, s.engine.Wait())
	}
	err = s.engine.Wait()
	// The loop has ended, so this goroutine may use the endpoint.
	return errors.Join(s.err, err)
}
