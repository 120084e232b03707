package reactor

import (
	"sync/atomic"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Loop owns connections, their completion queues and their memory, and calls
// the Handler. It belongs to one goroutine: the one that the engine runs it on,
// or the one that calls RunOnce. Only Post, Wake, SetIdle, Stop, Listen, Dial,
// Conns, Stats, Index and Engine may be called from others.
type Loop struct {
	engine  *Engine
	handler Handler
	cfg     *Config
	index   int

	clock   clock
	timers  timers
	ticker  timer
	idle    idleState
	mailbox mailbox
	timerFD *timerFD // of an embedded loop

	poller      *poller.Poller
	channel     *cm.EventChannel
	sources     []sourceSlot // by the poller's data
	readyEvents int          // events of the last Wait, not looked at
	sinceEpoll  int          // turns since the last look at epoll
	epollEvery  int
	lastEpoll   time.Duration // when, in the loop's time

	devices        []*loopDevice
	conns          connTable
	dirty          []*Conn   // connections with requests to post
	closing        connQueue // closing connections with a step to take
	liveConns      int       // number of connections, in any state
	openingConns   int       // number of connections that are not open yet
	currentMessage *Buffer   // the message that OnMessage is handling
	load           atomic.Int64

	probeTurn uint64 // turn in which mayProbe was last called
	probes    int    // number of probes that mayProbe has counted in that turn

	stats      Stats
	published  publishedStats
	safetyWake bool // the safety timeout ended the last sleep
	booted     bool
	draining   bool
	aborting   bool // connections end without waiting for their peers
	ended      bool
	inRunOnce  bool  // RunOnce
	err        error // the first that nobody else was told of
}

// turn is one iteration. What comes first is what is most urgent; each step has
// a budget, and returns how much work it found.
func (l *Loop) turn() (work int) {
	l.clock.tick()
	if work = l.pollCompletions(); work > 0 {
		l.flush() // an answer waits for nothing of what follows
	}
	work += l.pollEpoll() // connection events, device events, foreign descriptors
	work += l.runPosted()
	work += l.timers.expire(l.clock.now)
	work += l.advanceClosing()
	l.flush()
	if work > 0 {
		l.clock.addWork(work)
	}
	l.stats.Turns++
	return work
}

// run makes turns until the loop is over.
func (l *Loop) run() {
	for !l.ended {
		switch {
		case l.turn() > 0:
			l.idle.stopSpin()
		case !l.idle.keepSpinning(&l.clock):
			l.sleep(noLimit)
		}
		l.finishTurn()
	}
}

func (l *Loop) pollCompletions() (work int) {
	for _, n := range l.devices {
		found := n.poll()
		if found == 0 {
			continue
		}
		work += found
		l.stats.countBatch(found)
		if l.safetyWake {
			n.group.Rescued()
		}
	}
	l.safetyWake = false
	return work
}

func (l *Loop) runPosted() int {
	n := l.mailbox.run()
	l.stats.Posted += uint64(n)
	return n
}

// flush posts what the callbacks since the last flush have left: for each
// connection its sends, then its receive buffers, with one doorbell each.
func (l *Loop) flush() {
	for i, c := range l.dirty {
		l.dirty[i] = nil
		c.dirty = false
		c.post()
	}
	l.dirty = l.dirty[:0]
	for _, n := range l.devices {
		if n.shared != nil && len(n.shared.wrs) > 0 {
			if err := n.shared.post(); err != nil {
				n.fail(err)
			}
		}
	}
}

// closeBudget is how many closing connections may take a step in one turn. A step
// makes system calls and unmaps memory; up to about 150 µs were measured. A turn in
// which thousands of connections close at once thus takes 5 ms for these steps.
const closeBudget = 32

// advanceClosing lets closing connections take their next step: disconnecting, reporting,
// closing. Callbacks must not take these steps themselves. A connection that has
// another step to take does so in a later turn.
func (l *Loop) advanceClosing() (work int) {
	for n := min(l.closing.len(), closeBudget); work < n; work++ {
		c := l.closing.pop()
		c.advanceQueued = false
		c.advance()
	}
	return work
}

// settle ends a loop that has nothing left to wait for, and publishes counters.
func (l *Loop) finishTurn() {
	if l.done() && !l.ended {
		l.end()
	}
	l.publish(false)
}

// done reports whether nothing is left to wait for. The first loop has to stay
// for requests that are being answered.
func (l *Loop) done() bool {
	return l.draining && l.liveConns == 0 && (l.index > 0 || l.engine.acceptor.drained())
}

// note keeps the first error that has nobody else to go to, for Engine.Wait.
func (l *Loop) recordError(err error) { l.err = firstError(l.err, err) }

// Index is the loop's number in its engine, from 0.
func (l *Loop) Index() int { return l.index }

// Engine is the engine the loop belongs to.
func (l *Loop) Engine() *Engine { return l.engine }

// Now is the time as the loop last read it: in an idle loop a few microseconds
// ago, and never longer than the last few callbacks took.
func (l *Loop) Now() time.Time { return l.clock.time() }

// Conns is how many connections the loop has, those opening and closing
// included.
func (l *Loop) Conns() int { return int(l.load.Load()) }

// SetIdle changes what the loop does when there is nothing to do. An unknown
// policy is refused.
func (l *Loop) SetIdle(p IdlePolicy) error {
	if err := checkRange("idle policy", int64(p), 0, int64(IdleBusy)); err != nil {
		return verbs.Wrap("set idle policy", err)
	}
	l.idle.policy.Store(uint32(p))
	l.Wake()
	return nil
}

// Alloc maps new memory and registers it for one-sided operations on
// connections of this loop, those of its first device. It lives outside the Go
// heap and ends with MR.Close, or with the loop. A peer gets at it if access
// allows that and the peer was told MR.Addr and MR.RKey.
func (l *Loop) Alloc(size int, access verbs.Access) (verbs.MR, error) {
	n, err := l.firstDevice()
	if err != nil {
		return nil, verbs.Wrap("allocate memory", err)
	}
	mr, err := n.pd.Alloc(&verbs.AllocAttr{Size: size, Access: access, HugePages: l.cfg.HugePages})
	if err != nil {
		return nil, err
	}
	n.mrs = append(n.mrs, mr)
	return mr, nil
}

// Lease takes a send buffer for the connections of the loop's first device. Its
// length is 0: see Buffer.SetLen. It is the caller's until Release, or SendBuffer.
func (l *Loop) Lease() (*Buffer, error) {
	n, err := l.firstDevice()
	if err != nil {
		return nil, verbs.Wrap("lease buffer", err)
	}
	return n.lease()
}

func (d *loopDevice) lease() (*Buffer, error) {
	b, err := d.slab.get()
	if err != nil {
		return nil, verbs.Wrap("lease buffer", err)
	}
	b.length = 0
	return b, nil
}
