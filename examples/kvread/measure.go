package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"slices"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/kvread/client"
)

// perTransaction is how many keys a measurement reads in one transaction. Arbitrary.
const perTransaction = 100

// A getter finds the value of a key. The value is valid until the next call.
type getter func(key []byte) ([]byte, error)

// measureAll prints a line for each way to find a key. If pid is not 0, it is the process
// id of the server.
func measureAll(c *client.Client, opts *options, pid int, stdout io.Writer) error {
	bucket := []byte(opts.bucket)
	m := measurement{opts: opts, pid: pid, stdout: stdout, begin: c.Begin, end: c.End}
	byRead := func(key []byte) ([]byte, error) { return c.Get(bucket, key) }
	if err := m.run("READs", byRead); err != nil {
		return err
	}
	byMessage := func(key []byte) ([]byte, error) { return c.GetByMessage(bucket, key) }
	if err := m.run("message", byMessage); err != nil {
		return err
	}
	if opts.rpc == "" {
		return nil
	}
	conn, err := rpc.Dial("tcp", opts.rpc)
	if err != nil {
		return err
	}
	defer conn.Close()
	var value []byte
	m.begin = func() error { return nil }
	m.end = m.begin
	return m.run("net/rpc", func(key []byte) ([]byte, error) {
		err := conn.Call("RPC.Get", &GetArgs{Bucket: bucket, Key: key}, &value)
		return value, err
	})
}

// A measurement looks for random keys for some time, one after another.
type measurement struct {
	opts       *options
	pid        int
	stdout     io.Writer
	begin, end func() error
}

func (m *measurement) run(name string, get getter) error {
	random := rand.New(rand.NewPCG(1, 2))
	var times []time.Duration
	var key, want []byte
	cpu := processTime(m.pid)
	began := time.Now()
	for time.Since(began) < m.opts.duration {
		if err := m.begin(); err != nil {
			return err
		}
		for range perTransaction {
			i := random.IntN(m.opts.fill)
			key, want = demoKey(key[:0], i), demoValue(want[:0], i)
			at := time.Now()
			value, err := get(key)
			times = append(times, time.Since(at))
			if err != nil {
				return err
			}
			if !bytes.Equal(value, want) {
				return fmt.Errorf("the value of %s is %q", key, value)
			}
		}
		if err := m.end(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	cpu = processTime(m.pid) - cpu
	slices.Sort(times)
	n := len(times)
	fmt.Fprintf(m.stdout, "%-6s %-8s %9.0f %9v %9v", m.opts.path, name, float64(n)/took.Seconds(),
		times[n/2].Round(100*time.Nanosecond), times[n*99/100].Round(100*time.Nanosecond))
	if m.pid != 0 {
		fmt.Fprintf(m.stdout, " %9v", (cpu / time.Duration(n)).Round(100*time.Nanosecond))
	}
	fmt.Fprintln(m.stdout)
	return nil
}
