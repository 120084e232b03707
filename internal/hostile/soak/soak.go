//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// soak runs the attacks on both paths. It returns an error if messages were lost or a
// server uses more resources at the end.
func soak(ctx context.Context, o *options, out io.Writer) error {
	testbeds := []*testbed{newTestbed("local", soft.PathLocal, o), newTestbed("wire", soft.PathWire, o)}
	defer func() {
		for _, s := range testbeds {
			s.kill()
		}
	}()
	for _, s := range testbeds {
		if err := s.startAll(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	r := &record{out: out, began: time.Now(), testbeds: testbeds}
	for _, s := range testbeds {
		s.onAttack = func(attack string) {
			if o.verbose {
				r.printf("%7s %-6s %s", r.age(), s.name, attack)
			}
		}
	}
	if err := r.waitSettled(ctx, "begin"); err != nil {
		return err
	}
	// In the first third of the soak, memory may grow, because caches are filled. Later
	// growth is a leak.
	for _, part := range []struct {
		name string
		long time.Duration
	}{{"after a third", o.duration / 3}, {"end", o.duration - o.duration/3}} {
		if err := r.runAttacks(ctx, part.long, o.every); err != nil {
			return err
		}
		if err := r.waitSettled(ctx, part.name); err != nil {
			return err
		}
	}
	return r.verdict()
}

// runAttacks attacks all testbeds for the given time and prints their state.
func (r *record) runAttacks(ctx context.Context, long, every time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	failures := make(chan error, len(r.testbeds))
	var attacks sync.WaitGroup
	for _, s := range r.testbeds {
		attacks.Go(func() {
			if err := s.runAttacks(ctx); err != nil {
				failures <- fmt.Errorf("%s: %w", s.name, err)
				cancel()
			}
		})
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var err error
	for ctx.Err() == nil && err == nil {
		select {
		case <-ctx.Done():
		case <-ticks.C:
			err = r.sample("")
		}
	}
	cancel()
	attacks.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}
