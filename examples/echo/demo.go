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
	"strings"
	"time"
)

// demoAddr returns a loopback address for the demo's server or client. On the wire path,
// each process needs an address of its own, because only one process can bind the UDP
// port.
func demoAddr(path string, client bool) netip.Addr {
	addr := [4]byte{127, 0, 0, 1}
	if path == "wire" {
		pid := os.Getpid()
		addr = [4]byte{127, byte(pid >> 14), byte(pid >> 6), byte(pid<<2 | 1)}
		if client {
			addr[3]++
		}
	}
	return netip.AddrFrom4(addr)
}

// demo runs the server in a second process, and the client in this one.
func demo(ctx context.Context, opts *options, stdout, stderr io.Writer) (status int, err error) {
	server, err := startServer(opts, stderr)
	if err != nil {
		return exitFailed, err
	}
	status = exitFailed
	if server.addr != "" {
		withServer := *opts
		withServer.connect = server.addr
		if opts.path == "wire" && !opts.from.IsValid() {
			withServer.from = demoAddr(opts.path, true)
		}
		status, err = connect(ctx, &withServer, stdout, stderr)
	}
	served, failure := server.stop()
	if status == exitOK {
		status = served
	}
	return status, errors.Join(err, failure)
}

// A serverProcess is the demo's server. It runs until its standard input ends.
type serverProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	// Address of the server; empty if the server has failed to start.
	addr string
}

func startServer(opts *options, stderr io.Writer) (*serverProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, opts.serverFlags()...)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// If the server has failed, addr is empty. The exit status tells the reason.
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	addr := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return &serverProcess{cmd: cmd, stdin: stdin, addr: addr}, nil
}

// stop stops the server and waits until it has exited. If the server has failed, stop()
// returns exitFailed without an error, because the server has printed the error.
func (s *serverProcess) stop() (status int, err error) {
	hung := time.AfterFunc(2*shutdownTime, func() { s.cmd.Process.Kill() })
	defer hung.Stop()
	s.stdin.Close()
	err = s.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitOK, nil
	case errors.As(err, &exit) && exit.Exited():
		return exitFailed, nil
	}
	return exitFailed, fmt.Errorf("server process: %w", err)
}

// serverFlags returns the flags that pass this client's settings on to the server.
func (o *options) serverFlags() []string {
	return []string{
		"-until-eof",
		"-listen", netip.AddrPortFrom(demoAddr(o.path, false), 0).String(),
		"-provider", o.provider,
		"-path", o.path,
		"-mode", o.mode,
		"-size", fmt.Sprint(o.size),
		"-inflight", fmt.Sprint(o.inflight),
		"-loops", fmt.Sprint(o.loops),
		"-cpus", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.cpus), " ", ","), "[]"),
		"-reject", o.reject,
	}
}
