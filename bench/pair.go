package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/bench/pin"
	"github.com/rdmaloop/rdmaloop/examples/latency"
)

// childProcs returns the setting of GOMAXPROCS for a child process: one more than the
// number of loops. A loop may never sleep, so the other goroutines need another thread.
func childProcs(loops int) string { return fmt.Sprintf("GOMAXPROCS=%d", loops+1) }

// hangTimeout is how much longer than planned a measurement may take. Arbitrary.
const hangTimeout = 30 * time.Second

// A process is a server or client of a measurement.
type process struct {
	role   string
	cmd    *exec.Cmd
	stdin  io.Closer
	orders *json.Encoder
	notes  *json.Decoder
	stderr bytes.Buffer
}

func startProcess(ctx context.Context, role string, s *spec) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{role: role, cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role)
	if s.pinned() {
		p.cmd.Env = append(p.cmd.Env, childProcs(s.loops()))
	}
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.orders, p.notes = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	if err := pin.Start(p.cmd, s.CPUs...); err != nil {
		return nil, err
	}
	return p, p.orders.Encode(s)
}

// proceed lets the process take its next step.
func (p *process) proceed() error { return p.orders.Encode(struct{}{}) }

func (p *process) note() (n note, err error) {
	if err = p.notes.Decode(&n); err != nil {
		err = fmt.Errorf("%s: %w", p.role, err)
	}
	return n, err
}

// stop closes the input of the process, and waits until it has exited. If the process
// has failed, the error contains its standard error.
func (p *process) stop() error {
	p.stdin.Close()
	err := p.cmd.Wait()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", p.role, err, strings.TrimSpace(p.stderr.String()))
}

// A snapshot has the usage of all processes of a measurement at one moment.
type snapshot struct {
	usage  usage
	result *result
}

// measurePair measures a case with a server process and a client process. workLoops has
// one client process for each loop of the server.
func measurePair(ctx context.Context, s spec) (row Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Measure+s.WarmUp+hangTimeout)
	defer cancel()
	var clientCPUs, serverCPUs []int
	if s.pinned() {
		clientCPUs, serverCPUs = placement(s.loops())
	}
	listen, from := latency.Loopback()
	s.Listen, s.From = listen.String(), from.String()
	if s.WirePort, err = freeWirePort(); err != nil {
		return row, err
	}

	s.CPUs = serverCPUs
	srv, err := startProcess(ctx, roleServer, &s)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	ready, err := srv.note()
	if err != nil {
		return row, err
	}
	one := s
	one.Server, one.Loops, one.Connections = ready.Addr, 0, s.Connections/s.loops()
	var clients []*process
	for i := range s.loops() {
		one.CPUs = nil
		if len(clientCPUs) > 0 {
			one.CPUs = clientCPUs[i : i+1]
		}
		cl, failed := startProcess(ctx, roleClient, &one)
		if failed != nil {
			return row, failed
		}
		defer func() { err = errors.Join(err, cl.stop()) }()
		clients = append(clients, cl)
	}

	var snapshots [3]snapshot
	for i := range snapshots {
		if snapshots[i], err = nextSnapshot(clients, srv); err != nil {
			return row, err
		}
	}
	row = rowOf(s.Case, &snapshots)
	if row.MsgsPerSec == 0 {
		return row, errNothing
	}
	return row, nil
}

var errNothing = errors.New("no message completed in that time")

// nextSnapshot waits for a note of each client, and asks the server for its usage. Then
// it lets the clients take their next step.
func nextSnapshot(clients []*process, srv *process) (st snapshot, err error) {
	for _, cl := range clients {
		n, err := cl.note()
		if err != nil {
			return st, err
		}
		st.usage, st.result = st.usage.plus(n.Usage), st.result.plus(n.Result)
	}
	if err := srv.proceed(); err != nil {
		return st, err
	}
	serverNote, err := srv.note()
	if err != nil {
		return st, err
	}
	st.usage = st.usage.plus(serverNote.Usage)
	for _, cl := range clients {
		err = errors.Join(err, cl.proceed())
	}
	return st, err
}

// rowOf computes the row of a case from three snapshots: before the connections, after
// the warm-up, and at the end.
func rowOf(c Case, snapshots *[3]snapshot) Row {
	row := Row{Case: c}
	r := snapshots[2].result
	if r == nil || r.Msgs == 0 || r.Elapsed <= 0 {
		return row
	}
	row.P50, row.P99, row.P999, row.Max = r.P50, r.P99, r.P999, r.Max
	row.MsgsPerSec = float64(r.Msgs) / r.Elapsed.Seconds()
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	spent := snapshots[2].usage.minus(snapshots[1].usage)
	row.CPU = float64(spent.CPU) / float64(r.Msgs)
	row.Allocs = float64(spent.Allocs) / float64(r.Msgs)
	row.CtxSwitches = float64(spent.Switches) / float64(r.Msgs)
	if c.Connections >= manyConns {
		opened := snapshots[1].usage.minus(snapshots[0].usage)
		row.RSSPerConn = float64(opened.RSS) / float64(c.Connections)
	}
	return row
}

// freeWirePort returns a UDP port of 127.0.0.1 that is free. A client of gnetrdma can not
// choose the address from which it dials, which is 127.0.0.1 on loopback, and other
// programs may have the usual port there.
func freeWirePort() (uint16, error) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port(), nil
}
