package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// pingPort is the port of a server if none is given, as in examples/echo.
const pingPort = "7471"

// maxPings bounds the memory for the times of one measurement.
const maxPings = 10_000_000

// pingOptions are the flags of ping.
type pingOptions struct {
	listen, provider  string
	path              soft.Path
	idle              reactor.IdlePolicy
	from              netip.Addr
	size, count       int
	interval, timeout time.Duration
}

func runPing(ctx context.Context, f *flags, args []string) error {
	var o pingOptions
	f.StringVar(&o.listen, "listen", "", "send back what clients send to this `host:port`, until Ctrl-C")
	f.TextVar(&o.from, "from", netip.Addr{}, "connect from this `address` of this host; by default the route decides")
	f.StringVar(&o.provider, "provider", "auto", "auto, soft or rdmacore")
	f.TextVar(&o.path, "path", soft.PathAuto, "path of the device in software: auto, local or wire")
	f.TextVar(&o.idle, "mode", reactor.IdleAdaptive, "what an idle loop does: event, adaptive or busy")
	f.IntVar(&o.size, "size", 64, "`bytes` of a message; with -listen of the largest one")
	f.IntVar(&o.count, "count", 10_000, "round trips")
	f.DurationVar(&o.interval, "interval", 0, "time from one answer to the next message; 0 means none")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "how long the connection, and then each answer, may take")
	args, err := f.parse(args, 0, 1)
	switch {
	case err != nil:
		return err
	case (o.listen == "") == (len(args) == 0):
		return usagef("give a host, or -listen")
	case o.listen != "" && o.from.IsValid():
		return usagef("-listen and -from exclude each other")
	case o.size < 8 || o.size > 1<<20:
		return usagef("-size %d: must be from 8 to 1048576", o.size)
	case o.count < 1 || o.count > maxPings:
		return usagef("-count %d: must be from 1 to %d", o.count, maxPings)
	case o.interval < 0:
		return usagef("-interval %v: must not be negative", o.interval)
	case o.timeout <= 0 || o.timeout > time.Hour:
		return usagef("-timeout %v: must be more than 0, and at most 1h", o.timeout)
	case !slices.Contains(provider.Names(), o.provider):
		return usagef("-provider %q: must be one of %s", o.provider, strings.Join(provider.Names(), ", "))
	}
	if o.listen != "" {
		if err := checkPort(ctx, o.listen, 0); err != nil {
			return err
		}
		return pingServe(ctx, f, &o)
	}
	host := withPort(args[0])
	if err := checkPort(ctx, host, 1); err != nil {
		return err
	}
	return pingHost(ctx, f, &o, host)
}

// checkPort returns an error if a text is no host and port. The number of the port, or that
// which /etc/services has for its name, must be from least to 65535.
func checkPort(ctx context.Context, text string, least int) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return usagef("%q: must be host:port, such as 127.0.0.1:%s", text, pingPort)
	}
	if n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil || n < least {
		return usagef("port %s: must be from %d to 65535", port, least)
	}
	return nil
}

// withPort adds the default port to a host without a port.
func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), pingPort)
}

// open opens a device for an address and starts a loop. The result ends both.
func (o *pingOptions) open(addr netip.Addr, h reactor.Handler) (*reactor.Engine, func() error, error) {
	device, err := provider.Open(o.provider, &provider.Config{Soft: &soft.Config{Path: o.path}, Addr: addr})
	if err != nil {
		return nil, nil, err
	}
	engine, err := reactor.New(device, h, &reactor.Config{MaxMessage: o.size, Idle: o.idle})
	if err == nil {
		err = engine.Start()
	}
	if err != nil {
		return nil, nil, errors.Join(err, device.Close())
	}
	return engine, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*o.timeout)
		defer cancel()
		return errors.Join(engine.Shutdown(ctx), device.Close())
	}, nil
}

func pingServe(ctx context.Context, f *flags, o *pingOptions) error {
	addr, err := cm.ListenAddr(ctx, o.listen)
	if err != nil {
		return err
	}
	h := &pingServer{failed: make(chan error, 1)}
	engine, stop, err := o.open(addr.Addr(), h)
	if err != nil {
		return err
	}
	ln, err := engine.Listen(addr, nil)
	if err == nil {
		fmt.Fprintf(f.stdout, "listening on %v\n", ln.Addr())
		select {
		case <-ctx.Done():
		case err = <-h.failed:
		}
	}
	return errors.Join(err, stop())
}

// A pingServer sends every message back. A client that does not take its answers gets no
// more of its messages read.
type pingServer struct {
	reactor.BaseHandler
	failed chan error
}

func (*pingServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	waiting, _ := c.UserData.([][]byte)
	if len(waiting) > 0 || errors.Is(c.Send(msg.Data(), nil), reactor.ErrWouldBlock) {
		c.UserData = append(waiting, bytes.Clone(msg.Data()))
		_ = c.PauseRecv() // A device that can not hold back the peer has posted few buffers.
	}
}

func (*pingServer) OnWritable(c *reactor.Conn) {
	waiting, _ := c.UserData.([][]byte)
	for len(waiting) > 0 && c.Send(waiting[0], nil) == nil {
		waiting = waiting[1:]
	}
	if c.UserData = waiting; len(waiting) == 0 {
		c.ResumeRecv()
	}
}

func (s *pingServer) OnListenError(_ *reactor.Listener, err error) { s.failed <- err }

func pingHost(ctx context.Context, f *flags, o *pingOptions, host string) error {
	addr, err := cm.DialAddr(ctx, host)
	if err != nil {
		return err
	}
	p := &pinger{options: o, message: make([]byte, o.size), times: make([]time.Duration, 0, min(o.count, 1<<16)), done: make(chan error, 1)}
	engine, stop, err := o.open(addr.Addr(), p)
	if err != nil {
		return err
	}
	if err = engine.Dial(addr, &reactor.DialOptions{LocalAddr: netip.AddrPortFrom(o.from, 0), Timeout: o.timeout}); err == nil {
		select {
		case err = <-p.done:
		case <-ctx.Done():
		}
	}
	if err = errors.Join(err, stop()); len(p.times) == 0 {
		if err == nil {
			err = fmt.Errorf("%v has not answered", addr)
		}
		return err
	}
	return errors.Join(err, f.printPing(p.result(addr)))
}

// A pinger sends one message after another. Its methods run on the loop; the main goroutine
// reads the times after the loop has ended.
type pinger struct {
	reactor.BaseHandler
	options *pingOptions
	message []byte // the first 8 bytes have the number of the round trip
	sent    time.Time
	times   []time.Duration
	path    string
	done    chan error
}

func (p *pinger) end(err error) {
	select {
	case p.done <- err:
	default: // It has ended before.
	}
}

func (p *pinger) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	p.end(err)
}

func (p *pinger) OnOpen(c *reactor.Conn) {
	info := c.Info()
	p.path = "device " + info.Device.Name()
	if info.Credentials != nil {
		p.path += fmt.Sprintf(", memory shared with process %d", info.Credentials.PID)
	}
	c.SetIdleTimeout(p.options.timeout + p.options.interval)
	p.send(c)
}

func (p *pinger) send(c *reactor.Conn) {
	binary.BigEndian.PutUint64(p.message, uint64(len(p.times)))
	p.sent = time.Now()
	if err := c.Send(p.message, nil); err != nil {
		_ = c.Abort(err)
	}
}

func (p *pinger) OnMessage(c *reactor.Conn, msg reactor.Message) {
	now := time.Now()
	if !bytes.Equal(msg.Data(), p.message) {
		_ = c.Abort(errors.New("the answer differs from the message"))
		return
	}
	p.times = append(p.times, now.Sub(p.sent))
	switch {
	case len(p.times) == p.options.count:
		p.end(nil)
	case p.options.interval > 0:
		c.Loop().After(p.options.interval, func() {
			if c.State() == reactor.StateOpen {
				p.send(c)
			}
		})
	default:
		p.send(c)
	}
}

func (p *pinger) OnClose(_ *reactor.Conn, err error) {
	p.end(fmt.Errorf("the connection has ended after %d round trips: %w", len(p.times), err))
}

// A pingResult is what ping prints. Times are in nanoseconds.
type pingResult struct {
	Address string        `json:"address"`
	Path    string        `json:"path"`
	Size    int           `json:"size"`
	Count   int           `json:"count"`
	Min     time.Duration `json:"min_ns"`
	P50     time.Duration `json:"p50_ns"`
	P90     time.Duration `json:"p90_ns"`
	P99     time.Duration `json:"p99_ns"`
	P999    time.Duration `json:"p999_ns"`
	Max     time.Duration `json:"max_ns"`
}

func (p *pinger) result(addr netip.AddrPort) *pingResult {
	slices.Sort(p.times)
	quantile := func(q float64) time.Duration { return p.times[int(q*float64(len(p.times)-1)+0.5)] }
	return &pingResult{
		Address: addr.String(), Path: p.path, Size: p.options.size, Count: len(p.times),
		Min: p.times[0], P50: quantile(0.5), P90: quantile(0.9), P99: quantile(0.99), P999: quantile(0.999), Max: quantile(1),
	}
}

func (f *flags) printPing(r *pingResult) error {
	if f.json {
		return f.printJSON(r)
	}
	_, err := fmt.Fprintf(f.stdout, "%d round trips of %d bytes to %s, %s\nmin %v  p50 %v  p90 %v  p99 %v  p99.9 %v  max %v\n",
		r.Count, r.Size, r.Address, r.Path, r.Min, r.P50, r.P90, r.P99, r.P999, r.Max)
	return err
}
