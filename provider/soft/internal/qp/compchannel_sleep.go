//go:build linux

package qp

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

var (
	_ verbs.Sleeper  = (*compChannel)(nil)
	_ verbs.Disarmer = (*cq)(nil)
)

var errAutoProgress = errors.New("in automatic progress, the device moves the data while the owner sleeps")

// Join implements verbs.Sleeper.
func (c *compChannel) Join(fd int) error {
	return operr.Wrap("join completion channel", c.join(fd))
}

func (c *compChannel) join(fd int) error {
	switch s := c.shard; {
	case c.progress != verbs.ProgressManual:
		return &verbs.FeatureError{Feature: "Join", Reason: errAutoProgress}
	case c.closed:
		return verbs.ErrClosed
	case s.joined:
		return verbs.ErrState
	default:
		if err := s.epoll.Add(fd, unix.EPOLLIN, (*joinedDescriptor)(c)); err != nil {
			return err
		}
		c.joinedFD, s.joined = fd, true
		return nil
	}
}

// leaveJoin undoes Join. The next owner of the shard may wait for the shard's
// descriptor, so leaveJoin makes it readable if there is work.
func (c *compChannel) leaveJoin() {
	s := c.shard
	if !s.joined {
		return
	}
	s.joined = false
	s.epoll.Remove(c.joinedFD)
	if s.signaled {
		s.signaled = false
		s.signal()
	}
}

// Sleep implements verbs.Sleeper. It waits for the descriptors of the shard, and calls
// their handlers.
func (c *compChannel) Sleep(timeout time.Duration) (work, input bool, err error) {
	const op = "sleep in completion channel"
	s := c.shard
	switch {
	case c.closed:
		return false, false, operr.Wrap(op, verbs.ErrClosed)
	case !s.joined:
		return false, false, operr.Wrap(op, verbs.ErrState)
	}
	work = s.signaled || s.events > 0
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

// Disarm implements verbs.Disarmer.
func (c *cq) Disarm() {
	c.shard.Enter()
	defer c.shard.Leave()
	c.disarm()
	if c.queued {
		c.queued = false
		c.chn.dropEvent(c)
	}
}

// disarm makes the CQ raise no event for its next completion.
func (c *cq) disarm() {
	if c.arming != disarmed {
		c.arming = disarmed
		c.shard.armed--
	}
}
