package main

import (
	"sync"
	"time"
)

// A caller sends one message to the server and waits for the answer.
type caller interface {
	roundTrip(n uint64) error
}

// A blockingClient is a client for libraries whose calls block. Each caller has its own
// goroutine.
type blockingClient struct {
	spec      *spec
	connect   func() (caller, error)
	closeConn func(caller) error
	callers   []caller
	clock     stopwatch
	// Number of the last message of each caller.
	numbers []uint64
}

func newBlockingClient(s *spec) *blockingClient {
	return &blockingClient{spec: s, clock: newStopwatch()}
}

func (b *blockingClient) open() error {
	if b.spec.Workload == workConnect {
		return nil // drive() opens the connections of this workload.
	}
	for range b.spec.Connections {
		c, err := b.connect()
		if err != nil {
			return err
		}
		b.callers = append(b.callers, c)
	}
	b.numbers = make([]uint64, len(b.callers))
	return nil
}

// drive sends messages until the time has passed, and at least one message.
func (b *blockingClient) drive(period time.Duration, t *tally) (err error) {
	begin := b.clock.now()
	deadline := begin + period
	switch b.spec.Workload {
	case workConnsActive:
		err = b.driveAll(deadline, t)
	case workConnect:
		err = b.driveConnect(deadline, t)
	case workIdle:
		err = b.drivePaced(begin, deadline, t)
	default:
		err = b.drivePingPong(deadline, t)
	}
	t.Elapsed = b.clock.now() - begin
	return err
}

func (b *blockingClient) drivePingPong(deadline time.Duration, t *tally) error {
	for {
		b.numbers[0]++
		start := b.clock.now()
		if err := b.callers[0].roundTrip(b.numbers[0]); err != nil {
			return err
		}
		now := b.clock.now()
		t.Times.Record(now - start)
		t.Msgs++
		if now >= deadline {
			return nil
		}
	}
}

// driveAll runs all callers at the same time, with one tally.
func (b *blockingClient) driveAll(deadline time.Duration, t *tally) error {
	var mu sync.Mutex
	failed := make(chan error, len(b.callers))
	for i, c := range b.callers {
		go func() {
			for {
				b.numbers[i]++
				start := b.clock.now()
				err := c.roundTrip(b.numbers[i])
				now := b.clock.now()
				if err == nil {
					mu.Lock()
					t.Times.Record(now - start)
					t.Msgs++
					mu.Unlock()
				}
				if err != nil || now >= deadline {
					failed <- err
					return
				}
			}
		}()
	}
	for range b.callers {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

func (b *blockingClient) driveConnect(deadline time.Duration, t *tally) error {
	for {
		start := b.clock.now()
		c, err := b.connect()
		if err != nil {
			return err
		}
		if err := c.roundTrip(1); err != nil {
			return err
		}
		now := b.clock.now()
		t.Times.Record(now - start)
		t.Msgs++
		if err := b.closeConn(c); err != nil || now >= deadline {
			return err
		}
	}
}

func (b *blockingClient) drivePaced(due, deadline time.Duration, t *tally) error {
	for {
		b.numbers[0]++
		start := b.clock.now()
		if err := b.callers[0].roundTrip(b.numbers[0]); err != nil {
			return err
		}
		now := b.clock.now()
		t.Times.RecordPaced(now-start, idleInterval)
		t.Msgs++
		if now >= deadline {
			return nil
		}
		for due <= now {
			due += idleInterval
		}
		time.Sleep(due - now)
	}
}

func (b *blockingClient) Close() (err error) {
	if b.closeConn == nil {
		return nil
	}
	for _, c := range b.callers {
		if e := b.closeConn(c); err == nil {
			err = e
		}
	}
	return err
}
