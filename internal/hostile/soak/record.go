//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
)

// A reading is the state of a testbed at one time.
type reading struct {
	usage  hostile.Usage
	server hostile.ServerState
	steady hostile.Tally
	churn  hostile.Tally
}

// A record prints all readings and keeps those that verdict() needs.
type record struct {
	// protects out
	mu       sync.Mutex
	out      io.Writer
	began    time.Time
	testbeds []*testbed
	// Readings that waitSettled has stored. Each call adds one reading of every testbed.
	settledReadings [][]reading
	lines           int
}

func (s *testbed) takeReading() (r reading, err error) {
	note, err := s.server.Report()
	if err != nil {
		return r, err
	}
	r.server = note.Server
	if note, err = s.steadyClient.Report(); err != nil {
		return r, err
	}
	r.steady = note.Tally
	if note, err = s.churningClient.Report(); err != nil {
		return r, err
	}
	r.churn = note.Tally
	r.usage, err = hostile.UsageOf(s.server.PID())
	return r, err
}

// sample takes and prints a reading of every testbed.
func (r *record) sample(label string) error {
	for _, s := range r.testbeds {
		now, err := s.takeReading()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.print(label, s, &now)
	}
	return nil
}

// printf prints a line. Any goroutine may call it.
func (r *record) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format+"\n", args...)
}

// age returns the time since the soak began.
func (r *record) age() time.Duration { return time.Since(r.began).Round(time.Second) }

func (r *record) print(label string, s *testbed, now *reading) {
	if r.lines%40 == 0 {
		r.printf("%7s %-6s %10s %6s %6s %6s %9s %9s %9s %8s %5s %5s %5s %6s", "time", "path", "echoes", "lost",
			"damag.", "failed", "connects", "longest", "turn", "RSS", "fds", "maps", "conns", "gorout")
	}
	r.lines++
	a, b := &now.steady, &now.churn
	r.printf("%7s %-6s %10d %6d %6d %6d %9d %9v %9v %7.1fM %5d %5d %5d %6d %s",
		r.age(), s.name, a.Echoes+b.Echoes, a.Lost+b.Lost, a.Damaged+b.Damaged,
		a.Failed+b.Failed, a.Opened+b.Opened, max(a.Longest, b.Longest).Round(time.Microsecond*100),
		now.server.Longest.Round(time.Microsecond*100),
		float64(now.usage.Resident)/mebi, now.usage.Descriptors, now.usage.Mappings, now.server.Conns, now.server.Goroutines, label)
}

const mebi = 1 << 20

// Servers must release the resources of an attack within this time: one minute to notice
// a vanished peer, and another to return memory.
const settleLimit = 150 * time.Second

// waitSettled waits until no testbed uses more resources than at first, or until
// settleLimit has passed. It then stores a reading of every testbed.
func (r *record) waitSettled(ctx context.Context, label string) error {
	var now []reading
	for deadline := time.Now().Add(settleLimit); ; {
		now = now[:0]
		for _, s := range r.testbeds {
			reading, err := s.takeReading()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			now = append(now, reading)
		}
		if r.grown(now) == nil || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	r.settledReadings = append(r.settledReadings, now)
	for i, s := range r.testbeds {
		r.print(label, s, &now[i])
	}
	return ctx.Err()
}

// Limits of a server's growth. The numbers of connections and descriptors vary a little,
// because clients close and open connections all the time.
const (
	maxMoreConns       = 4
	maxMoreDescriptors = 16
	maxMoreMappings    = 48
	maxMoreGoroutines  = 4
	// Growth since the beginning, in bytes.
	maxMoreMemory = 48 * mebi * memoryFactor
	// Growth since the first third of the soak, in bytes.
	maxMoreMemoryLater = 16 * mebi * memoryFactor
)

// grown returns an error that lists the resources of a server that have grown. Memory is
// also compared with the reading after the first third.
func (r *record) grown(now []reading) (err error) {
	if len(r.settledReadings) == 0 {
		return nil
	}
	for i, s := range r.testbeds {
		a, b := &r.settledReadings[0][i], &now[i]
		for _, f := range []struct {
			name            string
			then, now, more uint64
		}{
			{"connections", a.server.Conns, b.server.Conns, maxMoreConns},
			{"descriptors", uint64(a.usage.Descriptors), uint64(b.usage.Descriptors), maxMoreDescriptors},
			{"mappings", uint64(a.usage.Mappings), uint64(b.usage.Mappings), maxMoreMappings},
			{"goroutines", uint64(a.server.Goroutines), uint64(b.server.Goroutines), maxMoreGoroutines},
			{"bytes of memory", a.usage.Resident, b.usage.Resident, maxMoreMemory},
		} {
			if f.now > f.then+f.more {
				err = errors.Join(err, fmt.Errorf("%s: the server grew from %d to %d %s", s.name, f.then, f.now, f.name))
			}
		}
		if len(r.settledReadings) < 2 {
			continue
		}
		if then := r.settledReadings[1][i].usage.Resident; b.usage.Resident > then+maxMoreMemoryLater {
			err = errors.Join(err, fmt.Errorf("%s: the server's memory grew from %d bytes after a third of the time to %d at the end", s.name, then, b.usage.Resident))
		}
	}
	return err
}

// verdict returns nil if the soak has succeeded. Otherwise the error lists all that is
// wrong.
func (r *record) verdict() error {
	last := r.settledReadings[len(r.settledReadings)-1]
	err := r.grown(last)
	for _, s := range r.testbeds {
		for _, p := range []*hostile.Process{s.steadyClient, s.churningClient} {
			note, failed := p.Finish()
			err = errors.Join(err, failed, lossOf(note.Tally))
		}
		_, failed := s.server.Finish()
		err = errors.Join(err, failed)
		for _, v := range s.services() {
			note, failed := v.client.Finish()
			err = errors.Join(err, failed, lossOf(note.Tally))
			_, failed = v.server.Finish()
			err = errors.Join(err, failed)
		}
	}
	return err
}

// lossOf returns an error if a client has lost messages or connections.
func lossOf(t hostile.Tally) error {
	if t.Lost+t.Damaged+t.Failed == 0 {
		return nil
	}
	return fmt.Errorf("a client lost %d messages, %d came back damaged, and %d connections failed (%s)", t.Lost, t.Damaged, t.Failed, t.Cause)
}
