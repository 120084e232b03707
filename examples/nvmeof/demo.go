package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/initiator"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// demoSize is the size of the demonstration's disk.
const demoSize = 64 << 20

// demoAddr returns a loopback address for the target or for the host. On the wire path
// each process needs an address of its own.
func demoAddr(host bool) netip.Addr {
	pid := os.Getpid()
	addr := [4]byte{127, byte(pid >> 14), byte(pid >> 6), byte(pid<<2 | 1)}
	if host {
		addr[3]++
	}
	return netip.AddrFrom4(addr)
}

// demo uses a disk on both paths of the soft device.
func demo(ctx context.Context, opts *options, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "nvmeof")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(stdout, "%-6s %-10s %6s %6s %9s %8s %9s %9s\n", "path", "operation", "size", "depth", "IOPS", "MB/s", "p50", "p99")
	for _, path := range []soft.Path{soft.PathLocal, soft.PathWire} {
		t, err := startTarget(opts, path, filepath.Join(dir, "disk"), stderr)
		if err != nil {
			return err
		}
		err = demoPath(ctx, t.addr, path, opts, stdout)
		if err = errors.Join(err, t.stop()); err != nil {
			return fmt.Errorf("%v path: %w", path, err)
		}
	}
	return nil
}

// demoPath uses the disk on one path of the soft device.
func demoPath(ctx context.Context, addr netip.AddrPort, path soft.Path, opts *options, stdout io.Writer) (err error) {
	p, err := soft.Open(&soft.Config{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	cfg := &initiator.Config{NQN: "nqn.2026-11.io.github.rdmaloop:host", Reactor: reactor.Config{MaxInFlight: 256}}
	if path == soft.PathWire {
		cfg.From = demoAddr(true)
	}
	h, err := initiator.NewHost(p, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	c, err := h.Connect(ctx, addr, opts.nqn)
	if err != nil {
		return err
	}
	if err = c.OpenQueues(ctx, 1, maxDepth); err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	return errors.Join(measureAll(ctx, c, path.String(), opts, stdout), c.Close(ctx))
}

// A targetProcess is the target of the demonstration. It runs until its standard input
// ends.
type targetProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  netip.AddrPort
}

// startTarget starts a target in a second process.
func startTarget(opts *options, path soft.Path, file string, stderr io.Writer) (*targetProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-until-eof", "-provider", "soft", "-path", path.String(), "-nqn", opts.nqn, "-file", file,
		"-size", fmt.Sprint(demoSize), "-listen", netip.AddrPortFrom(demoAddr(false), 0).String())
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
	t := &targetProcess{cmd: cmd, stdin: stdin}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	_, text, _ := strings.Cut(strings.TrimSpace(line), " at ")
	if t.addr, err = netip.ParseAddrPort(text); err != nil {
		// The target has printed why it has failed.
		return nil, errors.Join(errors.New("the target did not start"), t.stop())
	}
	return t, nil
}

// stop stops the target and waits for its end.
func (t *targetProcess) stop() error {
	return errors.Join(t.stdin.Close(), t.cmd.Wait())
}
