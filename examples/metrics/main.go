// Command metrics is an echo server with clients in the same process, which offers its
// counters to Prometheus and as JSON. See docs/metrics.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rdmaloop/rdmaloop/metrics"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func main() {
	addr := flag.String("http", "127.0.0.1:9464", "serve /metrics and /debug/vars at this `host:port`")
	clients := flag.Int("clients", 8, "number of clients, 1 to 1000")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := fmt.Errorf("-clients %d: out of range", *clients)
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	case 1 <= *clients && *clients <= 1000:
		err = run(ctx, *addr, *clients)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

// run serves the counters until the context is done.
func run(ctx context.Context, addr string, clients int) error {
	device, err := soft.Open(nil)
	if err != nil {
		return err
	}
	engine, err := reactor.New(device, echo{}, &reactor.Config{NumLoops: 2})
	if err != nil {
		return errors.Join(err, device.Close())
	}
	err = load(engine, clients)
	if err == nil {
		err = serve(ctx, addr, engine)
	}
	return errors.Join(err, engine.Shutdown(context.Background()), device.Close())
}

// load starts the engine, a listener and the clients.
func load(engine *reactor.Engine, clients int) error {
	if err := engine.Start(); err != nil {
		return err
	}
	ln, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	for i := 0; i < clients && err == nil; i++ {
		err = engine.Dial(ln.Addr(), &reactor.DialOptions{Handler: &client{}})
	}
	return err
}

// serve serves the counters of the engine until the context is done.
func serve(ctx context.Context, addr string, engine *reactor.Engine) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	collector, err := metrics.NewCollector(engine)
	if err != nil {
		return err
	}
	registry, mux := prometheus.NewRegistry(), http.NewServeMux()
	registry.MustRegister(collector, collectors.NewGoCollector())
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	vars := metrics.Expvar(engine)
	mux.HandleFunc("/debug/vars", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, vars) })
	fmt.Printf("serving http://%s/metrics and /debug/vars\n", ln.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// echo is the Handler of the server.
type echo struct{ reactor.BaseHandler }

func (echo) OnMessage(c *reactor.Conn, msg reactor.Message) { send(c, msg.Data()) }

// A client sends bursts of messages, one message after the other.
type client struct {
	reactor.BaseHandler
	left int // number of messages of the burst that follow
}

func (h *client) OnOpen(c *reactor.Conn) { h.pause(c) }

func (h *client) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if h.left--; h.left > 0 {
		send(c, msg.Data())
	} else {
		h.pause(c)
	}
}

// pause begins the next burst after a random time.
func (h *client) pause(c *reactor.Conn) {
	h.left = 1 + rand.IntN(1000)
	c.Loop().After(rand.N(50*time.Millisecond), func() { send(c, make([]byte, 64)) })
}

// OnDialError implements reactor.Handler. Without clients the counters are still served.
func (h *client) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	fmt.Fprintln(os.Stderr, "metrics: a client:", err)
}

// send sends a message. A connection has one message under way, so its send queue has room.
func send(c *reactor.Conn, message []byte) {
	if err := c.Send(message, nil); err != nil {
		c.Abort(err)
	}
}
