//go:build linux

// Command memory measures the memory of many connections on the local path. It starts a
// second process, opens connections to it, sends messages on each connection, and closes
// the connections. After each step it prints the proportional set size of both processes
// (proc_pid_smaps(5)). That size counts shared memory once.
//
//	go run ./bench/memory -connections 10000 -messages 70 -limit 24000
//
// With -limit, the command exits with status 1 in two cases: if a connection takes more
// memory than the limit, and if more than half of the memory is left after the
// connections have closed.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

var (
	connections = flag.Int("connections", 10_000, "number of connections")
	messages    = flag.Int("messages", 70, "messages that are sent on each connection")
	size        = flag.Int("size", 64, "bytes of a message")
	limit       = flag.Int("limit", 0, "largest allowed memory of a connection in bytes, both processes together; 0 means no limit")
	later       = flag.Bool("later", true, "also measure 45 s after the connections have closed")
	own         = flag.Bool("own", false, "give each connection receive buffers of its own")
	profile     = flag.String("profile", "", "write a heap profile of the dialing process to this `file`, while the connections are open")
	server      = flag.Bool("server", false, "be the second process; used by the command itself")
)

// A loop may take this long to return unused memory: see package reactor.
const trimTime = 45 * time.Second

func main() {
	flag.Parse()
	run := runClient
	if *server {
		run = runServer
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func config() *reactor.Config {
	cfg := &reactor.Config{MaxConns: -1, Limits: reactor.Limits{Backlog: 4096}}
	if *own {
		cfg.Memory.SharedRecvBuffers = -1
	}
	return cfg
}

type echo struct{ reactor.BaseHandler }

func (echo) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if err := c.Send(msg.Data(), nil); err != nil {
		c.Abort(err)
	}
}

// runServer prints its address, and echoes messages until its standard input ends. For
// each line of the standard input, it collects garbage and prints a line.
func runServer() error {
	device, err := soft.Open(nil)
	if err != nil {
		return err
	}
	engine, err := reactor.New(device, echo{}, config())
	if err != nil {
		return err
	}
	if err := engine.Start(); err != nil {
		return err
	}
	ln, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		debug.FreeOSMemory()
		fmt.Println("done")
	}
	return commands.Err()
}

// A client has the connections. Only the goroutine of its loop uses the fields below
// loop.
type client struct {
	reactor.BaseHandler
	loop    *reactor.Loop
	addr    netip.AddrPort
	conns   []*reactor.Conn
	answers int
	closed  int
	err     error
	collect func() error // function that collects garbage in both processes
}

func (c *client) OnOpen(conn *reactor.Conn)                { c.conns = append(c.conns, conn) }
func (c *client) OnMessage(*reactor.Conn, reactor.Message) { c.answers++ }
func (c *client) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	c.err = err
}
func (c *client) OnClose(_ *reactor.Conn, err error) {
	c.closed++
	if err != nil {
		c.err = err
	}
}

func runClient() error {
	args := append([]string{"-server"}, os.Args[1:]...)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		return errors.New("the server has not printed its address")
	}
	device, err := soft.Open(nil)
	if err != nil {
		return err
	}
	c := &client{addr: netip.MustParseAddrPort(lines.Text())}
	if c.loop, err = reactor.NewLoop(device, c, config()); err != nil {
		return err
	}
	c.collect = func() error {
		debug.FreeOSMemory()
		if _, err := fmt.Fprintln(stdin); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.New("the server has not collected garbage")
		}
		return nil
	}
	if err := c.measure(cmd.Process.Pid); err != nil {
		return err
	}
	if err := errors.Join(c.loop.Close(), device.Close(), stdin.Close()); err != nil {
		return err
	}
	return cmd.Wait()
}

// measure opens, uses and closes the connections, and prints the memory after each step.
// pid is the process ID of the server.
func (c *client) measure(pid int) error {
	type step struct {
		name string
		step func() error
	}
	steps := []step{
		{"before", func() error { return nil }},
		{"open", c.open},
		{"used", c.exchange},
		{"closed", c.close},
	}
	if *later {
		steps = append(steps, step{"later", c.wait})
	}
	var base, most, last int
	for i, s := range steps {
		if err := s.step(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		mine, err := pss(os.Getpid())
		if err != nil {
			return err
		}
		other, err := pss(pid)
		if err != nil {
			return err
		}
		last = mine + other
		most = max(most, last)
		if i == 0 {
			base = last
		}
		fmt.Printf("%-8s %8.1f MB (%.1f and %.1f), %d bytes for each connection\n", s.name, float64(last)/1e6, float64(mine)/1e6, float64(other)/1e6, (last-base) / *connections)
	}
	if *limit == 0 {
		return nil
	}
	if each := (most - base) / *connections; each > *limit {
		return fmt.Errorf("a connection takes %d bytes, more than %d", each, *limit)
	}
	if *later && last > most/2 {
		return fmt.Errorf("the largest memory was %d bytes, and %d are left", most, last)
	}
	return nil
}

// until runs the loop until done() returns true or a connection fails.
func (c *client) until(done func() bool) error {
	for !done() && c.err == nil {
		if _, err := c.loop.RunOnce(time.Millisecond); err != nil {
			return err
		}
	}
	return c.err
}

// batch is how many connections open or exchange messages at the same time. Arbitrary.
const batch = 100

func (c *client) open() error {
	for len(c.conns) < *connections {
		want := min(len(c.conns)+batch, *connections)
		for range want - len(c.conns) {
			if err := c.loop.Engine().Dial(c.addr, nil); err != nil {
				return err
			}
		}
		if err := c.until(func() bool { return len(c.conns) == want }); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) exchange() error {
	message := make([]byte, *size)
	for range *messages {
		for begin := 0; begin < len(c.conns); begin += batch {
			part := c.conns[begin:min(begin+batch, len(c.conns))]
			want := c.answers + len(part)
			for _, conn := range part {
				if err := conn.Send(message, nil); err != nil {
					return err
				}
			}
			if err := c.until(func() bool { return c.answers == want }); err != nil {
				return err
			}
		}
	}
	if *profile == "" {
		return nil
	}
	f, err := os.Create(*profile)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}

func (c *client) close() error {
	for _, conn := range c.conns {
		if err := conn.Close(); err != nil {
			return err
		}
	}
	want := len(c.conns)
	c.conns = nil
	return c.until(func() bool { return c.closed == want && c.loop.Conns() == 0 })
}

// wait runs the loop until both loops have returned unused memory, and then collects
// garbage. A loop without work allocates nothing, so the Go runtime would collect
// garbage only two minutes after the last time.
func (c *client) wait() error {
	end := time.Now().Add(trimTime)
	return errors.Join(c.until(func() bool { return time.Now().After(end) }), c.collect())
}

// pss returns the proportional set size of a process in bytes.
func pss(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kb); n == 1 {
			return kb * 1024, nil
		}
	}
	return 0, fmt.Errorf("process %d: no Pss", pid)
}
