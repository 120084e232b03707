package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rdmaloop/rdmaloop/examples/kvread/client"
	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// demoKeys is the number of keys if there is no flag -fill. The file then has 16 MiB.
const demoKeys = 100000

// demoAddr returns a loopback address for the server or the client. On the wire path each
// process needs an address of its own.
func demoAddr(isClient bool) netip.Addr {
	pid := os.Getpid()
	addr := [4]byte{127, byte(pid >> 14), byte(pid >> 6), byte(pid<<2 | 1)}
	if isClient {
		addr[3]++
	}
	return netip.AddrFrom4(addr)
}

// demo measures both paths of the soft device.
func demo(opts *options, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "kvread")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := *opts
	o.provider, o.file = "soft", filepath.Join(dir, "store")
	if o.fill == 0 {
		o.fill = demoKeys
	}
	fmt.Fprintf(stdout, "%-6s %-8s %9s %9s %9s %9s\n", "path", "GET by", "GETs/s", "p50", "p99", "server's")
	fmt.Fprintf(stdout, "%55s\n", "CPU a GET")
	for _, o.path = range []soft.Path{soft.PathLocal, soft.PathWire} {
		if err = demoPath(&o, stdout, stderr); err != nil {
			return fmt.Errorf("%v path: %w", o.path, err)
		}
	}
	return nil
}

func demoPath(opts *options, stdout, stderr io.Writer) error {
	s, err := startServer(opts, stderr)
	if err != nil {
		return err
	}
	o := *opts
	o.connect, o.rpc = s.addr, s.rpc
	if o.path == soft.PathWire {
		o.from = netip.AddrPortFrom(demoAddr(true), 0)
	}
	err = withClient(&o, func(c *client.Client) error { return measureAll(c, &o, s.cmd.Process.Pid, stdout) })
	return errors.Join(err, s.stop())
}

// A serverProcess is the server of the demonstration. It runs until its standard input
// ends.
type serverProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  netip.AddrPort
	rpc   string
}

// startServer starts the server in a second process.
func startServer(opts *options, stderr io.Writer) (*serverProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-until-eof", "-provider", opts.provider, "-path", opts.path.String(), "-file", opts.file,
		"-bucket", opts.bucket, "-fill", fmt.Sprint(opts.fill), "-rpc", "127.0.0.1:0",
		"-listen", netip.AddrPortFrom(demoAddr(false), 0).String())
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	s := &serverProcess{cmd: cmd, stdin: stdin}
	lines := bufio.NewReader(stdout)
	s.rpc = afterAt(lines)
	if s.addr, err = netip.ParseAddrPort(afterAt(lines)); err != nil {
		// The server has printed why it has failed.
		return nil, errors.Join(errors.New("the server did not start"), s.stop())
	}
	return s, nil
}

// afterAt reads a line and returns the text after "at".
func afterAt(lines *bufio.Reader) string {
	line, _ := lines.ReadString('\n') // After an error, the text is empty.
	_, text, _ := strings.Cut(strings.TrimSpace(line), " at ")
	return text
}

// stop stops the server and waits for its end.
func (s *serverProcess) stop() error { return errors.Join(s.stdin.Close(), s.cmd.Wait()) }
