package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Each measurement starts child processes: a server and one or more clients. The
// environment variable roleEnv tells a process its role.
//
// A child reads its spec, and then writes notes. After each note it waits for a line of
// input. A client exits after three notes. A server exits when its input ends.
const (
	roleEnv    = "RDMALOOP_BENCH_ROLE"
	roleServer = "server"
	roleClient = "client"
)

// A spec tells a child process what to measure and how.
type spec struct {
	Case
	Measure time.Duration
	WarmUp  time.Duration
	// Processors to pin the process to, one for each loop. Empty means no pinning.
	CPUs []int
	// Address at which the server listens. Only for the path "wire".
	Listen string
	// Source address of the client. Only for the path "wire".
	From string
	// UDP port of both ends. Only for the path "wire".
	WirePort uint16
	// Result of server.Addr. Only for the client.
	Server string
}

// loops returns the number of loops of the server.
func (c Case) loops() int { return max(1, c.Loops) }

// A note is a message from a child process to its parent. The server first sends Addr,
// and later Usage on request. The client sends Usage in every note, and Result in the
// last note.
type note struct {
	Addr   string  `json:",omitempty"`
	Usage  usage   `json:",omitzero"`
	Result *result `json:",omitempty"`
}

// A server answers messages until it is closed.
type server interface {
	// Addr returns the address that the client uses as spec.Server.
	Addr() string
	Close() error
}

// A client runs the workload.
type client interface {
	// open opens the connections.
	open() error
	// drive runs the workload for about the duration d, and records the messages in t.
	drive(d time.Duration, t *tally) error
	// Close ends the connections.
	Close() error
}

// With fewer connections than this, the memory of one connection is too inexact to
// report.
const manyConns = 100

// measuresMemory reports whether the memory of one connection is reported.
func (s *spec) measuresMemory() bool { return s.Connections >= manyConns }

// runChild is the main function of a child process.
func runChild(role string, in io.Reader, out io.Writer) error {
	orders, notes := json.NewDecoder(in), json.NewEncoder(out)
	var s spec
	if err := orders.Decode(&s); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	p, err := peerNamed(s.Peer)
	if err != nil {
		return err
	}
	if role == roleServer {
		return serve(p, &s, orders, notes)
	}
	return measure(p, &s, orders, notes)
}

func serve(p *peer, s *spec, orders *json.Decoder, notes *json.Encoder) error {
	srv, err := p.serve(s)
	if err != nil {
		return err
	}
	err = notes.Encode(note{Addr: srv.Addr()})
	for err == nil {
		var proceed struct{}
		if err = orders.Decode(&proceed); err == nil {
			err = report(s, nil, notes)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, srv.Close())
}

func measure(p *peer, s *spec, orders *json.Decoder, notes *json.Encoder) (err error) {
	cl, err := p.connect(s)
	if err != nil {
		return err
	}
	counted := newTally()
	for _, step := range []func() error{
		func() error { return report(s, nil, notes) },
		func() error { return await(orders) },
		cl.open,
		func() error { return cl.drive(s.WarmUp, newTally()) },
		func() error { return report(s, nil, notes) },
		func() error { return await(orders) },
		func() error { return cl.drive(s.Measure, counted) },
		func() error { return report(s, counted.result(), notes) },
		func() error { return await(orders) },
	} {
		if err = step(); err != nil {
			break
		}
	}
	return errors.Join(err, cl.Close())
}

func report(s *spec, r *result, notes *json.Encoder) error {
	u, err := used(s.measuresMemory())
	if err != nil {
		return err
	}
	return notes.Encode(note{Usage: u, Result: r})
}

func await(orders *json.Decoder) error {
	var proceed struct{}
	return orders.Decode(&proceed)
}
