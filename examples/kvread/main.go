// Command kvread lets other processes read a bbolt database by one-sided READs. Without
// flags, it starts a server in a second process, and prints how many keys a client finds
// in a second by READs, by messages and by net/rpc. See README.md.
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
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/kvread/client"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options has the values of the flags.
type options struct {
	listen, connect, from netip.AddrPort
	rpc                   string // address of the server of net/rpc
	file, bucket          string
	fill                  int
	provider              string
	path                  soft.Path
	duration              time.Duration
	untilEOF              bool
	keys                  []string
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	f := flag.NewFlagSet("kvread", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Func("listen", "serve the store at this `host:port`", func(text string) (err error) {
		o.listen, err = cm.ListenAddr(context.Background(), text)
		return err
	})
	f.Func("connect", "read the store of the server at this `host:port`; the arguments are keys", func(text string) (err error) {
		o.connect, err = cm.DialAddr(context.Background(), text)
		return err
	})
	f.TextVar(&o.from, "from", netip.AddrPort{}, "connect from this `address:port`")
	f.StringVar(&o.rpc, "rpc", "", "`address:port` of net/rpc over TCP, for the measurement")
	f.StringVar(&o.file, "file", "kvread.db", "`file` of the store")
	f.StringVar(&o.bucket, "bucket", demoBucket, "`name` of the bucket")
	f.IntVar(&o.fill, "fill", 0, "`number` of keys that the server puts into the bucket, and that a client without arguments reads")
	f.StringVar(&o.provider, "provider", "auto", "auto, soft or rdmacore")
	f.TextVar(&o.path, "path", soft.PathAuto, "path of the soft device: auto, local or wire")
	f.DurationVar(&o.duration, "duration", time.Second, "time of each measurement")
	f.BoolVar(&o.untilEOF, "until-eof", false, "serve until the end of standard input instead of until Ctrl-C")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.keys = f.Args()
	switch {
	case o.fill < 0 || o.fill > 1e8:
		return nil, fmt.Errorf("-fill %d: must be 0 to 100000000", o.fill)
	case o.duration <= 0:
		return nil, fmt.Errorf("-duration %v: must be positive", o.duration)
	case o.connect.IsValid() && o.fill == 0 && len(o.keys) == 0:
		return nil, errors.New("-connect needs keys, or -fill as given to the server")
	case !o.connect.IsValid() && len(o.keys) > 0:
		return nil, fmt.Errorf("unexpected argument %q", o.keys[0])
	}
	return &o, nil
}

func run(args []string, stdout, stderr io.Writer) (status int) {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		switch {
		case opts.listen.IsValid():
			err = serve(opts, stdout)
		case len(opts.keys) > 0:
			err = withClient(opts, func(c *client.Client) error { return printKeys(c, opts, stdout) })
		case opts.connect.IsValid():
			err = withClient(opts, func(c *client.Client) error { return measureAll(c, opts, 0, stdout) })
		default:
			err = demo(opts, stdout, stderr)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "kvread:", err)
		return 1
	}
	return 0
}

// open opens the provider for a local or a remote address.
func open(opts *options, addr netip.Addr) (cm.Provider, error) {
	return provider.Open(opts.provider, &provider.Config{Soft: &soft.Config{Path: opts.path}, Addr: addr})
}

// withClient calls fn with a connected client.
func withClient(opts *options, fn func(*client.Client) error) (err error) {
	p, err := open(opts, opts.connect.Addr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	c, err := client.Dial(p, opts.connect, &client.Config{From: opts.from})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return fn(c)
}

// printKeys prints the values of the keys.
func printKeys(c *client.Client, opts *options, stdout io.Writer) error {
	if err := c.Begin(); err != nil {
		return err
	}
	for _, key := range opts.keys {
		value, err := c.Get([]byte(opts.bucket), []byte(key))
		if err != nil {
			return err
		}
		if value == nil {
			return fmt.Errorf("no key %q", key)
		}
		fmt.Fprintf(stdout, "%s\n", value)
	}
	return c.End()
}

// stopContext returns a context that ends at Ctrl-C or SIGTERM, or with the standard
// input.
func stopContext(untilEOF bool) (context.Context, context.CancelFunc) {
	if !untilEOF {
		return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	}
	// Ctrl-C goes to both processes. The first process stops the second one.
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// Stop when the input ends or reading it fails.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}
