package reactor

import (
	"runtime"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/timerheap"
	"github.com/rdmaloop/rdmaloop/poller"
)

// open initializes the loop and opens its poller and its event channel.
func (l *Loop) open() (err error) {
	l.clock.origin = time.Now()
	l.mailbox.limit = l.cfg.MaxPosted
	l.idle.budget = l.cfg.SpinBudget
	l.idle.policy.Store(uint32(l.cfg.Idle))
	l.ticker.Owner = timerheap.Func(l.onTick)
	l.epoll.checkSoon()
	if l.poller, err = poller.New(maxEvents); err != nil {
		return err
	}
	if l.channel, err = cm.OpenChannel(l.engine.provider); err != nil {
		return err
	}
	_, err = l.watch(l.channel.FD(), poller.Readable, (*eventSource)(l))
	return err
}

// maxEvents is the largest number of ready descriptors that one call of epoll_wait
// returns. The number is arbitrary.
const maxEvents = 64

// boot calls OnBoot, and OnTick for the first time.
func (l *Loop) boot() error {
	l.running = true
	defer func() { l.running = false }()
	l.clock.wake()
	if err := l.handler.OnBoot(l); err != nil {
		return err
	}
	l.booted = true
	l.onTick()
	return nil
}

// main is the function of a loop's goroutine. It calls pin() and boot(), sends their
// first error or nil to the channel booted, and then runs the loop.
func (l *Loop) main(booted chan<- error) {
	err := l.pin()
	if err == nil {
		err = l.boot()
	}
	booted <- err
	l.run()
}

// pin locks the goroutine to a thread, and the thread to a CPU of Config.CPUs. Linux
// then takes new memory of the thread from the NUMA node of this CPU.
func (l *Loop) pin() error {
	if len(l.cfg.CPUs) == 0 {
		return nil
	}
	runtime.LockOSThread()
	return operr.Wrap("pin loop", pinThread(l.cfg.CPUs[l.index%len(l.cfg.CPUs)]))
}
