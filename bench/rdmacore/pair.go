//go:build rdmacore && cgo && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/bench/pin"
	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// measureTimeout is how long one measurement may take. Arbitrary.
const measureTimeout = time.Minute

// measure runs one step in two processes, and returns the nanoseconds of each chunk.
func measure(ctx context.Context, p *programs, s *spec) (chunks []uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	cpus := latency.AllowedCPUs()
	if len(cpus) < 2 {
		return nil, errors.New("two processors are needed, because both processes poll")
	}
	files, err := sharedFiles()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	var children [2]*child
	for side := range children {
		// files[0] is the shared memory. The other two files are the ends of the socket pair.
		if children[side], err = startChild(ctx, p, s, side, cpus[side], files[0], files[1+side]); err != nil {
			cancel()
			break
		}
	}
	for _, c := range children {
		if c != nil {
			err = errors.Join(err, c.wait())
		}
	}
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(children[client].stdout.Bytes(), &chunks)
	return chunks, err
}

// sharedFiles returns the shared memory and the two ends of a socket pair. The stub
// sends messages through the memory, and connection messages through the socket pair.
func sharedFiles() (files [3]*os.File, err error) {
	memory, err := unix.MemfdCreate("rdmacore", unix.MFD_CLOEXEC)
	if err != nil {
		return files, err
	}
	files[0] = os.NewFile(uintptr(memory), "memory")
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return files, errors.Join(err, files[0].Close())
	}
	for i, fd := range ends {
		files[1+i] = os.NewFile(uintptr(fd), "socket")
	}
	return files, files[0].Truncate(sharedSize)
}

// A child is one of the two processes.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func startChild(ctx context.Context, p *programs, s *spec, side, cpu int, memory, socket *os.File) (*child, error) {
	order, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	program, env := p.of(s.Step)
	c := &child{cmd: exec.CommandContext(ctx, program, childArg, fmt.Sprint(side), string(order))}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.cmd.ExtraFiles = []*os.File{memory, socket}
	// While the loop polls, the Go runtime may need a second thread.
	c.cmd.Env = append(os.Environ(), "GOMAXPROCS=2", env)
	return c, pin.Start(c.cmd, cpu)
}

func (c *child) wait() error {
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(c.stderr.String()))
	}
	return nil
}
