// Command rpc is a server of remote procedure calls over RDMA, and a client that calls each
// method. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func main() {
	var listen, connect netip.AddrPort
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	flag.Func("listen", "be a server at this `host:port`", func(s string) (err error) { listen, err = cm.ListenAddr(ctx, s); return err })
	flag.Func("connect", "be a client of the server at this `host:port`", func(s string) (err error) { connect, err = cm.DialAddr(ctx, s); return err })
	clients := flag.Int("clients", 100, "largest number of clients of the server, 1 to 4096")
	workers := flag.Int("workers", 16, "number of workers of the server, 1 to 4096")
	grace := flag.Duration("grace", 10*time.Second, "how long requests may take after SIGTERM")
	flag.Parse()
	context.AfterFunc(ctx, stop) // A second signal kills the process.
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	case listen.IsValid() == connect.IsValid():
		err = errors.New("either -listen or -connect is needed")
	case min(*clients, *workers) < 1 || max(*clients, *workers) > 4096 || *grace <= 0:
		err = fmt.Errorf("-clients %d -workers %d -grace %v: out of range", *clients, *workers, *grace)
	case listen.IsValid():
		err = newServer(*clients, *workers, *grace).run(ctx, listen)
	default:
		err = call(ctx, connect)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rpc:", err)
		os.Exit(1)
	}
}

// withEngine calls fn with an engine, on the device that has addr or a route to it, and then
// shuts down both. Connections that have not ended after limit are cut off.
func withEngine(addr netip.Addr, h reactor.Handler, cfg *reactor.Config, limit time.Duration, fn func(*reactor.Engine) error) error {
	device, err := provider.Open("auto", &provider.Config{Addr: addr})
	if err != nil {
		return err
	}
	engine, err := reactor.New(device, h, cfg)
	if err == nil {
		err = engine.Start()
	}
	if err == nil {
		err = fn(engine)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err = errors.Join(err, engine.Shutdown(ctx))
	}
	return errors.Join(err, device.Close())
}
