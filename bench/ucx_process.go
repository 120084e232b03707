package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/bench/pin"
)

// A ucxProgram runs ucx_perftest for a batch, as server and as client.
type ucxProgram struct {
	name  string
	batch ucxBatch
	port  string
}

// runUCX runs a batch with a server process and a client process.
func runUCX(ctx context.Context, program string, batch ucxBatch) (run *ucxRun, err error) {
	ctx, cancel := context.WithCancel(ctx)
	// If the client fails, this kills the server.
	defer cancel()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &ucxProgram{program, batch, port}
	clientCPU, serverCPU := processors()
	server := p.command(ctx)
	if err := pin.Start(server, serverCPU); err != nil {
		return nil, err
	}
	client, output, err := p.runClient(ctx, clientCPU)
	if err != nil {
		cancel()
	}
	if served := server.Wait(); err == nil && served != nil {
		err = fmt.Errorf("the server of %s: %w", program, served)
	}
	if err != nil {
		return nil, err
	}
	return p.result(output, client.ProcessState, server.ProcessState)
}

// command returns a command that runs ucx_perftest with the batch as its input.
func (p *ucxProgram) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.name, slices.Concat([]string{"-b", "/dev/stdin", "-p", p.port}, args)...)
	cmd.Stdin = strings.NewReader(strings.Join(p.batch.tests(), "\n") + "\n")
	cmd.Env = append(os.Environ(), "UCX_TLS="+ucxTransport(p.batch.Path)+",self", "UCX_LOG_LEVEL=error")
	return cmd
}

// ucxRetry is the time between two attempts to connect. Arbitrary.
const ucxRetry = 2 * time.Millisecond

// runClient runs the client until the server accepts the connection. It returns the last
// client process and its output.
func (p *ucxProgram) runClient(ctx context.Context, cpu int) (client *exec.Cmd, output []byte, err error) {
	for {
		var out bytes.Buffer
		client = p.command(ctx, "-v", "-f", "127.0.0.1")
		client.Stdout, client.Stderr = &out, &out
		if err = pin.Start(client, cpu); err == nil {
			err = client.Wait()
		}
		switch {
		case err == nil:
			return client, out.Bytes(), nil
		case !strings.Contains(out.String(), "Connection refused"):
			return nil, nil, fmt.Errorf("%s: %w: %s", p.name, err, strings.TrimSpace(out.String()))
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%s: the server does not listen: %w", p.name, ctx.Err())
		case <-time.After(ucxRetry):
		}
	}
}

func (p *ucxProgram) result(output []byte, sides ...*os.ProcessState) (*ucxRun, error) {
	figures, err := parseUCX(bytes.NewReader(output))
	if err != nil {
		return nil, err
	}
	tests := len(p.batch.tests())
	if len(figures) != tests {
		return nil, fmt.Errorf("%s: %d results of %d", p.name, len(figures), tests)
	}
	run := &ucxRun{figures: figures, sent: tests * (p.batch.messages + p.batch.warmUp())}
	for _, side := range sides {
		run.cpu += side.UserTime() + side.SystemTime()
		run.switches += switches(side)
	}
	return run, nil
}

// freePort returns a TCP port that nobody uses.
func freePort() (string, error) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer probe.Close()
	return strconv.Itoa(probe.Addr().(*net.TCPAddr).Port), nil
}

// switches returns the number of context switches of a process that has exited.
func switches(p *os.ProcessState) uint64 {
	used, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return uint64(used.Nvcsw + used.Nivcsw)
}
