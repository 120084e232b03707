package turns_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/turns"
)

func TestMain(m *testing.M) { leak.Main(m) }

// newLoop makes a Loop. The end of the test closes it.
func newLoop(t *testing.T) *turns.Loop {
	device, err := soft.Open(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	// The safety timeout would hide a wake-up that was lost.
	loop, err := reactor.NewLoop(device, reactor.BaseHandler{}, &reactor.Config{Limits: reactor.Limits{SafetyTimeout: time.Hour}})
	require.NoError(t, err)
	l, err := turns.New(loop)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// TestOneOwner checks that only one goroutine at a time owns the loop. The race detector
// would report a second owner.
func TestOneOwner(t *testing.T) {
	l := newLoop(t)
	var group sync.WaitGroup
	owners, total := 0, 0
	for seed := range uint64(8) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 2000 {
				l.Lock()
				owners++
				total++
				if random.IntN(4) == 0 {
					l.Turn()
				}
				if owners != 1 {
					t.Errorf("%d owners", owners)
				}
				owners--
				l.Unlock()
			}
		})
	}
	group.Wait()
	require.Equal(t, 16_000, total)
}

// TestPassedInOrder checks that the lock is passed to the goroutines in the order in
// which they have begun to wait.
func TestPassedInOrder(t *testing.T) {
	var lock turns.Queue
	var group sync.WaitGroup
	var order []int
	lock.Lock()
	require.False(t, lock.Contended())
	for i := range 10 {
		group.Go(func() {
			lock.Lock()
			order = append(order, i)
			lock.Unlock()
		})
		for lock.Waiting() == i {
			runtime.Gosched()
		}
	}
	require.True(t, lock.Contended())
	lock.Unlock()
	group.Wait()
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
}

// A mailbox lets a goroutine wait for functions that the loop runs.
type mailbox struct {
	loop   *turns.Loop
	waiter *turns.Waiter
	posted int // number of functions that were run
}

// post makes the loop run a function that wakes the goroutine. Any goroutine may call it.
func (m *mailbox) post(t *testing.T) {
	require.NoError(t, m.loop.Reactor().Post(func() {
		m.posted++
		m.loop.Wake(m.waiter)
	}))
}

// receive waits for the next function.
func (m *mailbox) receive() {
	m.loop.Lock()
	defer m.loop.Unlock()
	for m.posted == 0 {
		m.loop.Sleep(m.waiter, nil)
	}
	m.posted--
}

// TestSleepers checks that goroutines that sleep learn of the events of the loop, whether
// there is one such goroutine or several.
func TestSleepers(t *testing.T) {
	l := newLoop(t)
	for _, sleepers := range []int{1, 2, 5, 1} {
		var group sync.WaitGroup
		for range sleepers {
			m := &mailbox{loop: l, waiter: turns.NewWaiter()}
			answers := make(chan struct{})
			group.Go(func() {
				for range 500 {
					m.receive()
					answers <- struct{}{}
				}
			})
			group.Go(func() {
				for range 500 {
					m.post(t)
					<-answers
				}
			})
		}
		group.Wait()
	}
}

// TestSleepTimeout checks that timeouts end Sleep, while other goroutines are woken at
// about the same time.
func TestSleepTimeout(t *testing.T) {
	l := newLoop(t)
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			w := turns.NewWaiter()
			for range 300 {
				timeout := make(chan struct{})
				time.AfterFunc(time.Duration(random.IntN(50))*time.Microsecond, func() {
					close(timeout)
					l.Lock()
					defer l.Unlock()
					l.Recheck(w)
				})
				if random.IntN(2) == 0 {
					time.AfterFunc(time.Duration(random.IntN(50))*time.Microsecond, func() {
						l.Lock()
						defer l.Unlock()
						l.Wake(w)
					})
				}
				l.Lock()
				l.Sleep(w, timeout)
				l.Unlock()
				<-timeout
			}
		})
	}
	group.Wait()
}

// await waits until the condition is true. The condition is called by an owner.
func await(l *turns.Loop, condition func() bool) {
	for done := false; !done; runtime.Gosched() {
		l.Lock()
		done = condition()
		l.Unlock()
	}
}

// sleep starts a goroutine that waits for one function of m. The result is closed when it
// has returned.
func (m *mailbox) sleep() <-chan struct{} {
	returned := make(chan struct{})
	go func() {
		m.receive()
		close(returned)
	}()
	return returned
}

// TestRoles checks which goroutine leads, and that goroutines in each role get events.
func TestRoles(t *testing.T) {
	l := newLoop(t)
	newMailbox := func() *mailbox { return &mailbox{loop: l, waiter: turns.NewWaiter()} }
	first, second, third := newMailbox(), newMailbox(), newMailbox()
	// The stand-in can have begun to lead before the goroutines slept. An event ends that.
	eventPending := false
	requireRoles := func(leader *mailbox, followers int) {
		t.Helper()
		await(l, func() bool {
			if l.StandsIn() && !eventPending {
				eventPending = true
				require.NoError(t, l.Reactor().Post(func() { eventPending = false }))
			}
			return l.Leader() == leader.waiter && l.Followers() == followers
		})
	}

	firstReturned := first.sleep()
	requireRoles(first, 0)
	secondReturned := second.sleep()
	requireRoles(first, 1)
	thirdReturned := third.sleep()
	requireRoles(first, 2)

	l.Lock()
	l.Turn() // Now the loop is not armed.
	l.Unlock()
	for !l.TryLock() { // An owner arms the loop unless others wait for the loop.
		runtime.Gosched()
	}
	require.True(t, l.Armed(), "the leader gets no events")
	l.Unlock()

	third.post(t)
	<-thirdReturned
	requireRoles(first, 1)
	first.post(t)
	<-firstReturned
	requireRoles(second, 0)
	second.post(t)
	<-secondReturned

	// An event that was handled already can end the lead of the stand-in too.
	for standsIn := false; !standsIn; {
		await(l, l.StandsIn)
		firstReturned = first.sleep()
		await(l, func() bool { return l.Sleepers() == 1 })
		secondReturned = second.sleep()
		await(l, func() bool {
			standsIn = l.StandsIn() && l.Followers() == 2
			return l.Sleepers() == 2
		})
		first.post(t)
		<-firstReturned
		requireRoles(second, 0)
		second.post(t)
		<-secondReturned
	}
	await(l, l.StandsIn)
}

// TestNoWakeUpIsLost lets few goroutines take all roles in quick succession: they are
// woken by events of the loop, by other owners, and by timeouts, while owners run turns
// and leave the loop unarmed. A wake-up that is lost, or a loop without a leader, makes a
// goroutine wait for ever.
func TestNoWakeUpIsLost(t *testing.T) {
	for sleepers := 1; sleepers <= 3; sleepers++ {
		t.Run(fmt.Sprint(sleepers, " sleepers"), func(t *testing.T) {
			l := newLoop(t)
			var group sync.WaitGroup
			for seed := range uint64(sleepers) {
				group.Go(func() { sleepOften(t, l, rand.New(rand.NewPCG(seed, 0))) })
			}
			group.Wait()
		})
	}
}

// sleepOften sleeps many times, and returns from each Sleep because of an event of the
// loop, another owner, a timeout, or several of them at about the same time.
func sleepOften(t *testing.T, l *turns.Loop, random *rand.Rand) {
	m := &mailbox{loop: l, waiter: turns.NewWaiter()}
	for range 1000 {
		var causes sync.WaitGroup
		soon := func(f func()) {
			delay := time.Duration(random.IntN(60)) * time.Microsecond
			causes.Go(func() { time.Sleep(delay); f() })
		}
		own := func(f func()) {
			l.Lock()
			defer l.Unlock()
			f()
		}
		timeout := make(chan struct{})
		event, owner, timed := random.IntN(2) == 0, random.IntN(4) == 0, random.IntN(4) == 0
		if event {
			soon(func() { m.post(t) })
		}
		if owner {
			soon(func() { own(func() { m.posted++; l.Wake(m.waiter) }) })
		}
		if timed || !event && !owner {
			soon(func() { close(timeout); own(func() { l.Recheck(m.waiter) }) })
		}
		if random.IntN(4) == 0 {
			soon(func() { own(func() { l.Turn() }) }) // The loop is not armed afterwards.
		}
		if random.IntN(100) == 0 {
			time.Sleep(3 * time.Millisecond) // The stand-in leads.
		}
		own(func() {
			for m.posted == 0 && l.Sleep(m.waiter, timeout) {
			}
		})
		causes.Wait()
		await(l, func() bool { return !event || m.posted > 0 })
		own(func() { m.posted = 0 })
	}
}

// TestUnattendedLoop checks that the loop handles events while no goroutine sleeps or
// owns the loop.
func TestUnattendedLoop(t *testing.T) {
	l := newLoop(t)
	for range 20 {
		l.Lock()
		l.Turn() // The loop is not armed now.
		l.Unlock()
		done := make(chan struct{})
		require.NoError(t, l.Reactor().Post(func() { close(done) }))
		<-done
	}
}

// TestSpin checks that Spin runs turns until the condition is true, that it gives up
// after its budget, and that it does nothing while another goroutine sleeps.
func TestSpin(t *testing.T) {
	l := newLoop(t)
	l.Lock()
	defer l.Unlock()
	done := false
	require.NoError(t, l.Reactor().Post(func() { done = true }))
	require.True(t, l.Spin(func() bool { return done }, time.Hour))
	require.False(t, l.Spin(func() bool { return false }, time.Microsecond))
	require.False(t, l.Spin(func() bool { return false }, 0))

	w, asleep := turns.NewWaiter(), make(chan struct{})
	l.Unlock()
	go func() {
		l.Lock()
		close(asleep)
		l.Sleep(w, nil)
		l.Unlock()
	}()
	<-asleep
	l.Lock()
	require.False(t, l.Spin(func() bool { return false }, time.Hour))
	l.Wake(w)
}
