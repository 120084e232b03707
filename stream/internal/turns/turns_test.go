package turns_test

import (
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
	device, err := soft.Open(&soft.Config{Vectors: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	loop, err := reactor.NewLoop(device, reactor.BaseHandler{}, nil)
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
