//go:build linux

package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// An attack returns when its rounds are over, or when the attacker is told to stop.
type attack func(a *attacker) error

// An attacker runs one attack.
type attacker struct {
	attack attack
	spec   Spec
	rand   *rand.Rand // Used only by the goroutine of the attack.
	ctx    context.Context
	stop   context.CancelFunc
	done   *event // done happens when the rounds of the attack are over.
	ended  *event // ended happens when the attack has returned.

	mu     sync.Mutex
	counts Attack
	err    error
}

func (a *attacker) start(s *Spec) (Note, error) {
	a.spec, a.done, a.ended = *s, newEvent(), newEvent()
	a.rand = rand.New(rand.NewPCG(s.Seed, 0))
	a.ctx, a.stop = context.WithCancel(context.Background())
	go func() {
		defer a.ended.happen()
		defer a.done.happen()
		if err := a.attack(a); err != nil {
			fmt.Fprintf(os.Stderr, "hostile: %v\n", err)
			a.mu.Lock()
			a.err = err
			a.mu.Unlock()
		}
	}()
	return Note{}, nil
}

func (a *attacker) report() Note {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Note{Attack: a.counts}.with(a.err)
}

func (a *attacker) await() { <-a.done.done }

func (a *attacker) finish() (Note, error) {
	a.stop()
	<-a.ended.done
	return a.report(), nil
}

// count applies change to the counters.
func (a *attacker) count(change func(c *Attack)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.counts)
}

// eachRound calls round as often as the spec says, until round fails or the attacker
// is told to stop.
func (a *attacker) eachRound(round func() error) error {
	for n := 0; a.spec.Rounds == 0 || n < a.spec.Rounds; n++ {
		if a.ctx.Err() != nil {
			return nil
		}
		if err := round(); err != nil {
			return err
		}
		a.count(func(c *Attack) { c.Rounds++ })
		a.pause(a.spec.Interval)
	}
	return nil
}

// waitForStop reports that the rounds are over, and waits until the attacker is told to
// stop. The attack keeps its resources until then.
func (a *attacker) waitForStop() {
	a.done.happen()
	<-a.ctx.Done()
}

// pause waits for d, or until the attacker is told to stop.
func (a *attacker) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}
