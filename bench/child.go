package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A measurement is done by two processes of this program, a server and a client.
// Each gets its spec on the standard input, and then a line whenever it may go on;
// on the standard output it writes notes. Both end with their input.
const (
	roleEnv    = "RDMALOOP_BENCH_ROLE"
	roleServer = "server"
	roleClient = "client"
)

// A spec tells a process what to do.
type spec struct {
	Case
	Measure time.Duration // how long
	WarmUp  time.Duration // how long before that, uncounted
	CPU     int           // processor that the process is on; -1 is any
	Listen  string        // address of the server, where it matters
	From    string        // address of the client, where it matters
	Server  string        // client: what the server's Addr says
}

// A note is what a process writes: a server where it can be reached, and then its
// usage whenever it is asked; a client its usage before it connects, before it
// measures, and when it has measured.
type note struct {
	Addr   string  `json:",omitempty"`
	Usage  usage   `json:",omitzero"`
	Result *result `json:",omitempty"`
}

// A server answers messages until it is closed.
type server interface {
	Addr() string // as a client needs it
	Close() error
}

// A client brings the workload about.
type client interface {
	// open makes the connections.
	open() error
	// drive carries on the workload for about so long.
	drive(d time.Duration, t *tally) error
	// Close ends the connections.
	Close() error
}

// manyConns is from how many connections on their memory can be told from the
// rest.
const manyConns = 100

func (s *spec) tidy() bool { return s.Connections >= manyConns }

// child is the whole life of such a process.
func child(role string, in io.Reader, out io.Writer) error {
	lines, notes := json.NewDecoder(in), json.NewEncoder(out)
	var s spec
	if err := lines.Decode(&s); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	p, err := peerNamed(s.Peer)
	if err != nil {
		return err
	}
	if role == roleServer {
		return serve(p, &s, lines, notes)
	}
	return measure(p, &s, lines, notes)
}

func serve(p *peer, s *spec, lines *json.Decoder, notes *json.Encoder) error {
	srv, err := p.serve(s)
	if err != nil {
		return err
	}
	err = notes.Encode(note{Addr: srv.Addr()})
	for err == nil {
		var goOn struct{}
		if err = lines.Decode(&goOn); err == nil {
			err = report(s, nil, notes)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, srv.Close())
}

func measure(p *peer, s *spec, lines *json.Decoder, notes *json.Encoder) (err error) {
	cl, err := p.connect(s)
	if err != nil {
		return err
	}
	counted := newTally()
	for _, step := range []func() error{
		func() error { return report(s, nil, notes) },
		func() error { return await(lines) },
		cl.open,
		func() error { return cl.drive(s.WarmUp, newTally()) },
		func() error { return report(s, nil, notes) },
		func() error { return await(lines) },
		func() error { return cl.drive(s.Measure, counted) },
		func() error { return report(s, counted.result(), notes) },
		func() error { return await(lines) },
	} {
		if err = step(); err != nil {
			break
		}
	}
	return errors.Join(err, cl.Close())
}

func report(s *spec, r *result, notes *json.Encoder) error {
	u, err := used(s.tidy())
	if err != nil {
		return err
	}
	return notes.Encode(note{Usage: u, Result: r})
}

func await(lines *json.Decoder) error {
	var goOn struct{}
	return lines.Decode(&goOn)
}
