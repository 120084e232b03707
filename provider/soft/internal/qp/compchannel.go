//go:build linux

package qp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/fdevent"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/resource"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// compChannel implements verbs.CompChannel. It belongs to its shard. In manual progress,
// its descriptor is also readable when the shard has other work.
type compChannel struct {
	engine   *Engine
	shard    *Shard
	vector   int
	progress verbs.Progress
	event    *fdevent.Event // the channel's descriptor in automatic progress; nil in manual progress
	// CQs with a queued event, oldest event first; each CQ at most once
	events []*cq
	cqs    int // number of open CQs that use the channel
	closed bool
	// descriptor that was passed to Join; valid while the shard is joined
	joinedFD int
	// true if joinedFD was readable when the shard last looked at its descriptors
	joinedReady bool
}

// CreateCompChannel implements verbs.Device.
func (e *Engine) CreateCompChannel(attr *verbs.CompChannelAttr) (verbs.CompChannel, error) {
	if attr == nil {
		attr = &verbs.CompChannelAttr{}
	}
	c, err := e.createCompChannel(attr)
	if err != nil {
		return nil, operr.Wrap("create completion channel", err)
	}
	return c, nil
}

func (e *Engine) createCompChannel(attr *verbs.CompChannelAttr) (*compChannel, error) {
	s, err := e.Shard(attr.Vector, attr.Progress)
	if err != nil {
		return nil, err
	}
	if err := e.Add(objChannel, "completion channels", maxCQ); err != nil {
		return nil, err
	}
	c := &compChannel{engine: e, shard: s, vector: attr.Vector, progress: attr.Progress}
	if attr.Progress == verbs.ProgressAuto {
		c.event, err = fdevent.NewEvent()
	} else {
		err = e.claimShard(s)
	}
	if err != nil {
		e.Remove(objChannel)
		return nil, resource.Wrap(err)
	}
	return c, nil
}

// FD implements verbs.CompChannel.
func (c *compChannel) FD() int {
	if c.progress == verbs.ProgressManual {
		return c.shard.epoll.FD()
	}
	return c.event.FD()
}

// attach counts a new CQ of the channel. A channel with CQs can not be closed.
func (c *compChannel) attach() error {
	c.shard.Enter()
	defer c.shard.Leave()
	if c.closed {
		return verbs.ErrClosed
	}
	c.cqs++
	return nil
}

// detach removes a closed CQ and its queued event.
func (c *compChannel) detach(q *cq) {
	c.cqs--
	c.dropEvent(q)
}

// dropEvent removes the queued event of a CQ, if there is one.
func (c *compChannel) dropEvent(q *cq) {
	for i, waiting := range c.events {
		if waiting == q {
			c.events = append(c.events[:i], c.events[i+1:]...)
			c.countEvents(-1)
			return
		}
	}
}

// push queues the event of a CQ, and makes the channel's descriptor readable.
func (c *compChannel) push(q *cq) {
	if q.queued {
		return
	}
	q.queued = true
	c.events = append(c.events, q)
	c.countEvents(1)
	if c.event != nil {
		c.event.Signal()
	} else {
		c.shard.wake.signal()
	}
}

// countEvents adds n to the shard's number of queued events. In automatic progress it
// does nothing.
func (c *compChannel) countEvents(n int) {
	if c.event == nil {
		c.shard.wake.events += n
	}
}

// Next implements verbs.CompChannel.
func (c *compChannel) Next() (cookie uint64, ok bool, err error) {
	s := c.shard
	s.Enter()
	defer s.Leave()
	if c.closed {
		return 0, false, operr.Wrap("next completion event", verbs.ErrClosed)
	}
	if len(c.events) == 0 {
		switch {
		case c.event != nil:
			c.event.Drain()
		case s.armed > 0 || !s.backlog:
			s.handleReady()
			s.drive()
		}
	}
	if len(c.events) == 0 {
		return 0, false, nil
	}
	q := c.events[0]
	c.events = append(c.events[:0], c.events[1:]...)
	c.countEvents(-1)
	q.queued = false
	q.unacked++
	return q.cookie, true, nil
}

// Close implements verbs.CompChannel.
func (c *compChannel) Close() error {
	c.shard.Enter()
	defer c.shard.Leave()
	if c.closed {
		return nil
	}
	if c.cqs > 0 {
		return operr.Wrap("close completion channel", fmt.Errorf("%w: the channel has %d CQs", verbs.ErrBusy, c.cqs))
	}
	c.closed = true
	if c.event != nil {
		_ = c.event.Close()
	} else {
		c.leaveJoin()
		c.engine.releaseShard(c.shard)
	}
	c.engine.Remove(objChannel)
	return nil
}

var errAutoProgress = errors.New("in automatic progress, the device moves the data while the owner sleeps")

// Join implements verbs.CompChannel.
func (c *compChannel) Join(fd int) error {
	return operr.Wrap("join completion channel", c.join(fd))
}

func (c *compChannel) join(fd int) error {
	switch s := c.shard; {
	case c.closed:
		return verbs.ErrClosed
	case c.progress != verbs.ProgressManual:
		return &verbs.FeatureError{Feature: "Join", Reason: errAutoProgress}
	case s.wake.joined():
		return fmt.Errorf("%w: the channel was joined before", verbs.ErrState)
	default:
		if err := s.epoll.Add(fd, unix.EPOLLIN, (*joinedDescriptor)(c)); err != nil {
			return err
		}
		c.joinedFD = fd
		s.wake.join()
		return nil
	}
}

// leaveJoin undoes Join. The next owner of the shard may wait for the shard's
// descriptor, so leaveJoin makes it readable if there is work.
func (c *compChannel) leaveJoin() {
	s := c.shard
	if s.wake.joined() {
		s.epoll.Remove(c.joinedFD)
		s.wake.leave()
	}
}

// Sleep implements verbs.CompChannel. It waits for the descriptors of the shard, and calls
// their handlers.
func (c *compChannel) Sleep(timeout time.Duration) (work, input bool, err error) {
	const op = "sleep in completion channel"
	s := c.shard
	switch {
	case c.closed:
		return false, false, operr.Wrap(op, verbs.ErrClosed)
	case !s.wake.joined():
		return false, false, operr.Wrap(op, fmt.Errorf("%w: Join was not called", verbs.ErrState))
	}
	work = s.wake.due() || s.wake.events > 0
	if work {
		timeout = 0
	}
	c.joinedReady, s.timeRead = false, false
	ready, err := s.epoll.Dispatch(timeout)
	if c.joinedReady {
		ready--
	}
	return work || ready > 0, c.joinedReady, operr.Wrap(op, err)
}

// A joinedDescriptor handles the descriptor that was passed to Join.
type joinedDescriptor compChannel

func (d *joinedDescriptor) OnReady(int, uint32) { d.joinedReady = true }

// Disarm implements verbs.CQ.
func (c *cq) Disarm() bool {
	c.shard.Enter()
	defer c.shard.Leave()
	c.disarm()
	if c.queued {
		c.queued = false
		c.chn.dropEvent(c)
	}
	return true
}

// disarm makes the CQ raise no event for its next completion.
func (c *cq) disarm() {
	if c.arming != disarmed {
		c.arming = disarmed
		c.shard.armed--
	}
}
