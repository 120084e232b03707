package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// Program rstream sends bytes over rsockets (rsocket(7)). Each test has these steps:
//
//	client and server exchange 16 bytes
//	as often as the program has iterations:
//	    the client sends the transfers of an iteration
//	    the server sends as many
//
// With its option -I, -C or -S it runs one test. Otherwise it runs two tests for each of
// its sizes: one with many iterations of one transfer, and one with many transfers, each
// kind on a connection of its own.

// An rstreamTest is one test.
type rstreamTest struct{ size, transfers, iterations int }

// runRstream is protocol.run for rstream.
func runRstream(o *options, device cm.Provider, out io.Writer) (err error) {
	network, err := stream.New(device, &stream.NetworkConfig{
		Buffers: stream.Buffers{Receive: o.buffer, Send: o.buffer}, CloseTimeout: drainTimeout,
		Reactor: reactor.Config{MaxInFlight: o.inFlight},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	r := &rstream{options: o, out: out}
	connect := func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		return network.DialContext(ctx, "tcp", o.addr.String())
	}
	if o.listen {
		ln, err := network.Listen("tcp", o.addr.String())
		if err != nil {
			return err
		}
		defer ln.Close()
		fmt.Fprintf(out, "listening on %v\n", ln.Addr())
		connect = ln.Accept
	}
	for _, tests := range r.tests() {
		if err := r.runOn(connect, tests); err != nil {
			return err
		}
	}
	return nil
}

// connectTimeout is how long the client waits for the server. The other program may
// listen again only after its first connection.
const connectTimeout = 30 * time.Second

// An rstream is one side of the program.
type rstream struct {
	*options
	out            io.Writer
	sent, received byte // next byte to send and to receive, with the flag -verify
	buffer         []byte
}

// tests returns the tests for each connection.
func (r *rstream) tests() [][]rstreamTest {
	if r.sizes == "one" {
		return [][]rstreamTest{{{r.size, r.count, r.iterations}}}
	}
	var latency, bandwidth []rstreamTest
	for _, size := range rstreamSizes(r.sizes == "all") {
		n := transfersFor(size)
		latency = append(latency, rstreamTest{size, 1, n})
		bandwidth = append(bandwidth, rstreamTest{size, n, 1})
	}
	return [][]rstreamTest{latency, bandwidth}
}

// rstreamSizes returns the sizes of the program without options, or those of its option
// -S all.
func rstreamSizes(all bool) []int {
	if !all {
		return []int{64, 4 << 10, 64 << 10, 1 << 20}
	}
	sizes := []int{64}
	for size := 128; size <= 4<<20; size *= 2 {
		sizes = append(sizes, size, size+size/2)
	}
	return sizes
}

// transfersFor returns how many transfers of a size the program sends.
func transfersFor(size int) int {
	switch {
	case size >= 1<<20:
		return 100
	case size >= 64<<10:
		return 1000
	case size >= 1<<10:
		return 10_000
	}
	return 100_000
}

// runOn runs tests on a new connection.
func (r *rstream) runOn(connect func() (net.Conn, error), tests []rstreamTest) error {
	c, err := connect()
	if err != nil {
		return err
	}
	for _, test := range tests {
		if err := r.test(c, test); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	if r.listen {
		// A client that waits with poll(2) may take the end of the connection for an
		// error before it has read everything, so the client closes first.
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			return errors.Join(fmt.Errorf("not the end of the stream: %w", err), c.Close())
		}
	}
	return c.Close()
}

// test runs one test.
func (r *rstream) test(c net.Conn, test rstreamTest) error {
	r.buffer = make([]byte, max(test.size, 16))
	if err := r.exchange(c, 16, 1); err != nil {
		return err
	}
	start := time.Now()
	for range test.iterations {
		if err := r.exchange(c, test.size, test.transfers); err != nil {
			return err
		}
	}
	took := time.Since(start)
	bytes := 2 * test.size * test.transfers * test.iterations
	fmt.Fprintf(r.out, "%d iterations of %d transfers of %d bytes, %.2f MiB/s, %v for each transfer\n",
		test.iterations, test.transfers, test.size, float64(bytes)/took.Seconds()/(1<<20),
		took/time.Duration(2*test.transfers*test.iterations))
	return nil
}

// exchange sends transfers in both directions, those of the client first.
func (r *rstream) exchange(c net.Conn, size, transfers int) error {
	steps := []func(net.Conn, []byte) error{r.send, r.receive}
	if r.listen {
		steps = []func(net.Conn, []byte) error{r.receive, r.send}
	}
	for _, step := range steps {
		for range transfers {
			if err := step(c, r.buffer[:size]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rstream) send(c net.Conn, b []byte) error {
	if r.verify {
		for i := range b {
			b[i] = r.sent
			r.sent++
		}
	}
	_, err := c.Write(b)
	return err
}

func (r *rstream) receive(c net.Conn, b []byte) error {
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	for i := range b {
		if r.verify && b[i] != r.received {
			return fmt.Errorf("a wrong byte: %#x instead of %#x", b[i], r.received)
		}
		r.received++
	}
	return nil
}
