package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// What a process gets besides its spec. Two threads may run Go code, so that what
// the runtime has to do does not wait for a loop that never sleeps; they share the
// processor of the process.
const childProcs = "GOMAXPROCS=2"

// hangTime is how much longer than planned a measurement may take.
const hangTime = 30 * time.Second

// A side is one of the two processes of a measurement.
type side struct {
	role   string
	cmd    *exec.Cmd
	stdin  io.Closer
	lines  *json.Encoder
	notes  *json.Decoder
	stderr bytes.Buffer
}

func startSide(ctx context.Context, role string, s *spec) (*side, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &side{role: role, cmd: exec.CommandContext(ctx, program)}
	d.cmd.Env = append(os.Environ(), roleEnv+"="+role, childProcs)
	d.cmd.Stderr = &d.stderr
	stdin, err := d.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.stdin, d.lines, d.notes = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	if err := startPinned(d.cmd, s.CPU); err != nil {
		return nil, err
	}
	return d, d.lines.Encode(s)
}

// goOn lets the process take its next step.
func (d *side) goOn() error { return d.lines.Encode(struct{}{}) }

func (d *side) note() (n note, err error) {
	if err = d.notes.Decode(&n); err != nil {
		err = fmt.Errorf("%s: %w", d.role, err)
	}
	return n, err
}

// stop ends the process. Why it failed is on its standard error.
func (d *side) stop() error {
	d.stdin.Close()
	err := d.cmd.Wait()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", d.role, err, strings.TrimSpace(d.stderr.String()))
}

// A stage is a moment of a measurement, with what both processes have used.
type stage struct {
	usage  usage
	result *result
}

// pair measures a case with two processes.
func pair(ctx context.Context, s spec) (row Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Measure+s.WarmUp+hangTime)
	defer cancel()
	client, server := processors()
	s.Listen, s.From = ownAddresses()

	s.CPU = server
	srv, err := startSide(ctx, roleServer, &s)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	ready, err := srv.note()
	if err != nil {
		return row, err
	}
	s.CPU, s.Server = client, ready.Addr
	cl, err := startSide(ctx, roleClient, &s)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, cl.stop()) }()

	var stages [3]stage
	for i := range stages {
		if stages[i], err = nextStage(cl, srv); err != nil {
			return row, err
		}
	}
	row = rowOf(s.Case, &stages)
	if row.MsgsPerSec == 0 {
		return row, errNothing
	}
	return row, nil
}

var errNothing = errors.New("not one message in that time")

// nextStage waits for the client's next stage, asks the server, and lets the client
// go on.
func nextStage(cl, srv *side) (st stage, err error) {
	mine, err := cl.note()
	if err != nil {
		return st, err
	}
	if err := srv.goOn(); err != nil {
		return st, err
	}
	other, err := srv.note()
	if err != nil {
		return st, err
	}
	return stage{mine.Usage.plus(other.Usage), mine.Result}, cl.goOn()
}

// rowOf makes a row of the stages: not connected, warm, measured.
func rowOf(c Case, stages *[3]stage) Row {
	row := Row{Case: c}
	r := stages[2].result
	if r == nil || r.Msgs == 0 || r.Elapsed <= 0 {
		return row
	}
	row.P50, row.P99, row.P999, row.Max = r.P50, r.P99, r.P999, r.Max
	row.MsgsPerSec = float64(r.Msgs) / r.Elapsed.Seconds()
	row.BytesPerSec = row.MsgsPerSec * float64(c.Size)
	spent := stages[2].usage.minus(stages[1].usage)
	row.CPU = float64(spent.CPU) / float64(r.Msgs)
	row.Allocs = float64(spent.Allocs) / float64(r.Msgs)
	row.CtxSwitches = float64(spent.Switches) / float64(r.Msgs)
	if c.Connections >= manyConns {
		opened := stages[1].usage.minus(stages[0].usage)
		row.RSSPerConn = float64(opened.RSS) / float64(c.Connections)
	}
	return row
}

// ownAddresses are two of loopback that no other run of this program uses: on an
// address one process has the UDP port of the wire path.
func ownAddresses() (server, client string) {
	pid := os.Getpid()
	own := func(second byte) string {
		return netip.AddrFrom4([4]byte{127, second + byte(pid>>16), byte(pid >> 8), byte(pid)}).String()
	}
	const servers, clients = 64, 128 // process ids have at most 22 bits
	return own(servers), own(clients)
}
