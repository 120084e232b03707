//go:build linux

package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// An attack carries out one kind of attack. It returns when its rounds are finished or
// when it is told to stop.
type attack func(a *attacker) error

// An attacker runs one attack.
type attacker struct {
	attack attack
	spec   Spec
	// used by the attack's goroutine only
	rand  *rand.Rand
	ctx   context.Context
	stop  context.CancelFunc
	done  *event // event that happens when all rounds are finished
	ended *event // event that happens when the attack has returned

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
		// An attack that is told to stop may be waiting for an answer.
		if err := a.attack(a); err != nil && (a.ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
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
	return Note{Attack: a.counts}.withError(a.err)
}

func (a *attacker) await() { <-a.done.done }

func (a *attacker) finish() (Note, error) {
	a.stop()
	<-a.ended.done
	return a.report(), nil
}

// count changes the attacker's counters under the lock.
func (a *attacker) count(change func(c *Attack)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.counts)
}

// eachRound calls round() once in each round. It returns after Spec.Rounds rounds, when
// told to stop, or after an error.
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

// waitForStop marks all rounds as finished and waits until the attacker is told to stop.
// Meanwhile its sockets and connections stay open.
func (a *attacker) waitForStop() {
	a.done.happen()
	<-a.ctx.Done()
}

// pause waits for the duration d, or until the attacker is told to stop.
func (a *attacker) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

// endLimit is the time in which the server must end a connection after a violation.
// Arbitrary.
const endLimit = time.Minute

// violateInTurn commits one of several violations in each round, on a connection of its
// own. The function dial opens the connection for violation i, and returns the name of
// the violation and a channel that gets the error of a dial, and is closed when the
// connection has ended. Attack.Sent counts the dials, and Attack.Refused the connections
// that have ended.
func (a *attacker) violateInTurn(violations int, dial func(n *node, i int) (name string, ended <-chan error, err error)) error {
	n := &node{}
	if err := n.open(&Spec{Path: a.spec.Path}, reactor.BaseHandler{}); err != nil {
		return err
	}
	round := 0
	err := a.eachRound(func() error {
		name, ended, err := dial(n, round%violations)
		round++
		if err != nil {
			return err
		}
		a.count(func(c *Attack) { c.Sent++ })
		select {
		case err := <-ended:
			a.count(func(c *Attack) {
				if err == nil {
					c.Refused++
				} else {
					c.DialError = fmt.Sprintf("%s: %v", name, err)
				}
			})
		case <-a.ctx.Done():
		case <-time.After(endLimit):
			return fmt.Errorf("%s: the server does not end the connection", name)
		}
		return nil
	})
	return errors.Join(err, n.close())
}
