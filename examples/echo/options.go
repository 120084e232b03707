package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// memoryLimit is the largest number of bytes in flight on all connections together.
const memoryLimit = 1 << 30

// options has the checked values of the flags.
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

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	var cpus string
	f := flag.NewFlagSet("echo", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints the error
	f.StringVar(&o.listen, "listen", "", "run the server at this `host:port`; port 0 means any free port, no host means all addresses")
	f.StringVar(&o.connect, "connect", "", "run the client of a server at this `host:port`; no host means this host")
	f.Func("from", "client: connect from this `address`", func(text string) (err error) {
		o.from, err = netip.ParseAddr(text)
		return err
	})
	f.StringVar(&o.provider, "provider", "auto", "auto, soft or rdmacore")
	f.StringVar(&o.path, "path", "auto", "path of the soft device: auto, local or wire")
	f.StringVar(&o.mode, "mode", "adaptive", "what an idle loop does: event (sleep), adaptive (spin, then sleep) or busy (spin)")
	f.IntVar(&o.size, "size", 64, "`bytes` of a message; for a server the largest message: use the client's size")
	f.IntVar(&o.count, "count", 100_000, "`messages` to send ping-pong, over all connections; 0 skips it")
	f.IntVar(&o.inflight, "inflight", 32, "`messages` in flight on each connection while streaming; size x inflight x conns is at most 1 GiB")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "how long to stream; 0 skips it")
	f.IntVar(&o.conns, "conns", 1, "connections")
	f.IntVar(&o.loops, "loops", 1, "event loops of each process")
	f.StringVar(&cpus, "cpus", "", "`list` of processors to pin loops to, as 0,2-3: the client's loops first, then the server's")
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
		return fmt.Errorf("-mode %q: must be event, adaptive or busy", o.mode)
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
			return fmt.Errorf("-%s %d: must be %d to %d", flag.name, flag.value, flag.least, flag.limit)
		}
	}
	switch {
	case o.duration < 0:
		return fmt.Errorf("-duration %v: must not be negative", o.duration)
	case o.count == 0 && o.duration == 0:
		return errors.New("-count 0 -duration 0: nothing to measure")
	case int64(o.size)*int64(o.inflight)*int64(o.conns) > memoryLimit:
		return fmt.Errorf("-size %d -inflight %d -conns %d: the product must be at most %d",
			o.size, o.inflight, o.conns, memoryLimit)
	}
	return o.checkTexts()
}

// checkTexts returns an error if the text of a flag is too long for private data.
func (o *options) checkTexts() error {
	for _, flag := range []struct {
		name, text string
		message    cm.Message
	}{
		{"private-data", o.privateData, cm.MessageConnect},
		{"reject", o.reject, cm.MessageReject},
	} {
		if limit := cm.MaxPrivateData(cm.TCP, flag.message); len(flag.text) > limit {
			return fmt.Errorf("-%s: %d bytes exceed the limit of %d", flag.name, len(flag.text), limit)
		}
	}
	return nil
}

// resolve returns the address for host:port. If the host is empty, it uses defaultHost.
func resolve(flag, hostPort string, defaultHost netip.Addr) (netip.AddrPort, error) {
	found, err := net.ResolveTCPAddr("tcp", hostPort)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("-%s %q: %w", flag, hostPort, err)
	}
	addr := found.AddrPort()
	if found.IP == nil {
		return netip.AddrPortFrom(defaultHost, addr.Port()), nil
	}
	return netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), nil
}

// parseCPUs parses a list of processors such as 0,2-3.
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
			return nil, fmt.Errorf("-cpus %q: must be a list such as 0,2-3", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// providerConfig returns a configuration that chooses the device of this address. If the
// address is on another host, it chooses the device with a route to it.
func (o *options) providerConfig(addr netip.AddrPort) *provider.Config {
	return &provider.Config{Path: o.path, Vectors: o.loops, Addr: addr.Addr()}
}

// engineConfig returns the configuration of an engine, for the client and the server.
func (o *options) engineConfig(cpus []int) *reactor.Config {
	return &reactor.Config{
		NumLoops: o.loops,
		CPUs:     cpus,
		Idle:     o.idle,
		// The echo of a message may arrive before the completion of its send. Then the
		// next message is sent while the first one still needs its place. So each
		// message in flight needs two places.
		MaxInFlight: 2 * o.inflight,
		MaxMessage:  max(o.size, 1),
	}
}
