// Command gateway sends orders to an exchange over RDMA, on a loop that never sleeps, and
// goes on with a second exchange when the first one fails. Without flags it starts two
// exchanges, and kills the first one in the middle. See README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// options has the flags.
type options struct {
	listen, exchanges string
	orders            uint64
	path              string
	cpus              string
	peerTimeout       time.Duration
	from              netip.AddrPort // address of the gateway; the zero value lets the device choose
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "", "be an exchange that listens at this `address`")
	flag.StringVar(&o.exchanges, "exchanges", "", "be a gateway to the exchanges with these `addresses`")
	flag.Uint64Var(&o.orders, "orders", 200_000, "number of orders")
	flag.StringVar(&o.path, "path", "", "path of the soft device: local or wire (default: what the address needs)")
	flag.StringVar(&o.cpus, "cpus", "", "`list` of processors: the first one for the gateway, the second for exchanges")
	flag.DurationVar(&o.peerTimeout, "peer-timeout", 50*time.Millisecond, "how long an exchange may be silent")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	case o.listen != "":
		err = serve(ctx, &o)
	case o.exchanges != "":
		err = trade(ctx, &o, strings.Split(o.exchanges, ","), func() {})
	default:
		err = demo(ctx, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// start opens a device and starts an engine with one loop, which has a processor of its own
// if the host has one for it.
func (o *options) start(h reactor.Handler, exchange bool) (*reactor.Engine, func() error, error) {
	cpus, err := latency.ParseCPUs(o.cpus)
	if err != nil {
		return nil, nil, err
	}
	device, err := provider.Open("auto", &provider.Config{Path: o.path})
	if err != nil {
		return nil, nil, err
	}
	cfg := &reactor.Config{PeerTimeout: o.peerTimeout, Idle: reactor.IdleBusy, CPUs: latency.Place(cpus, 1, true, exchange)}
	if exchange {
		cfg.Idle = reactor.IdleAdaptive // The two exchanges share a processor.
	}
	engine, err := reactor.New(device, h, cfg)
	if err == nil {
		err = engine.Start()
	}
	if err != nil {
		return nil, nil, errors.Join(err, device.Close())
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(engine.Shutdown(ctx), device.Close())
	}
	return engine, stop, nil
}

// demo starts two exchanges, and kills the first one when half of the orders are
// acknowledged.
func demo(ctx context.Context, o *options) error {
	var addrs []string
	var first *exec.Cmd
	listen := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if o.path == "wire" { // Each process needs an address of its own.
		server, client := latency.Loopback()
		listen, o.from = server, netip.AddrPortFrom(client, 0)
	}
	for i := range 2 {
		if bytes := listen.As4(); i == 1 && o.path == "wire" {
			bytes[1] += 128 // an address that no other run of the program uses
			listen = netip.AddrFrom4(bytes)
		}
		args := []string{"-listen", netip.AddrPortFrom(listen, 0).String(), "-path", o.path, "-cpus", o.cpus}
		exchange := exec.CommandContext(ctx, os.Args[0], args...)
		exchange.Stderr = os.Stderr
		exchange.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		output, err := exchange.StdoutPipe()
		if err == nil {
			err = exchange.Start()
		}
		if err != nil {
			return err
		}
		defer func() {
			_ = exchange.Process.Kill()
			_ = exchange.Wait() // The error is that it was killed.
		}()
		line, err := bufio.NewReader(output).ReadString('\n')
		addr, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if !found {
			return fmt.Errorf("exchange %d does not listen: %q, %w", i+1, line, err)
		}
		addrs = append(addrs, addr)
		if first == nil {
			first = exchange
		}
	}
	return trade(ctx, o, addrs, func() {
		fmt.Println("the first exchange is killed")
		_ = first.Process.Kill() // It has not ended before.
	})
}
