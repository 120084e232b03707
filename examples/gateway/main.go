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
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// options has the flags.
type options struct {
	listen, exchanges string
	orders            uint64
	path              soft.Path
	cpus              string
	peerTimeout       time.Duration
	from              netip.AddrPort // address of the gateway; the zero value lets the device choose
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "", "be an exchange that listens at this `address`")
	flag.StringVar(&o.exchanges, "exchanges", "", "be a gateway to the exchanges with these `addresses`")
	flag.Uint64Var(&o.orders, "orders", 200_000, "number of orders")
	flag.TextVar(&o.path, "path", soft.PathAuto, "path of the soft device: auto, local or wire")
	flag.StringVar(&o.cpus, "cpus", "", "`list` of processors: the first one for the gateway, the second for exchanges")
	flag.DurationVar(&o.peerTimeout, "peer-timeout", 50*time.Millisecond, "how long an exchange may be silent")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	case o.orders == 0:
		err = errors.New("-orders 0: there is nothing to send")
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

// withEngine calls fn with an engine, whose loop has a processor of its own if the host has one
// for it, and then shuts the engine down.
func (o *options) withEngine(h reactor.Handler, idle reactor.IdlePolicy, fn func(*reactor.Engine) error) error {
	cpus, err := latency.ParseCPUs(o.cpus)
	if err != nil {
		return err
	}
	device, err := provider.Open("auto", &provider.Config{Soft: &soft.Config{Path: o.path}})
	if err != nil {
		return err
	}
	engine, err := reactor.New(device, h, &reactor.Config{
		PeerTimeout: o.peerTimeout, Idle: idle, CPUs: latency.Place(cpus, 1, true, idle != reactor.IdleBusy),
	})
	if err == nil {
		err = engine.Start()
	}
	if err == nil {
		err = fn(engine)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, engine.Shutdown(ctx))
	}
	return errors.Join(err, device.Close())
}

// demo starts two exchanges, and kills the first one when half of the orders are
// acknowledged.
func demo(ctx context.Context, o *options) error {
	listen := "127.0.0.1:0"
	if o.path == soft.PathWire {
		_, client := latency.Loopback()
		o.from, listen = netip.AddrPortFrom(client, 0), ":0"
	}
	var addrs []string
	var started []*exec.Cmd
	for range 2 {
		exchange := exec.CommandContext(ctx, os.Args[0], "-listen", listen, "-path", o.path.String(), "-cpus", o.cpus)
		exchange.Stderr = os.Stderr
		output, err := exchange.StdoutPipe()
		if err = errors.Join(err, exchange.Start()); err != nil {
			return err
		}
		defer exchange.Process.Kill() // An error means that it has ended.
		line, err := bufio.NewReader(output).ReadString('\n')
		addr, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if !found {
			return fmt.Errorf("an exchange does not listen: %q, %w", line, err)
		}
		addrs, started = append(addrs, addr), append(started, exchange)
	}
	return trade(ctx, o, addrs, func() {
		fmt.Println("the first exchange is killed")
		_ = started[0].Process.Kill() // It has not ended before.
	})
}
