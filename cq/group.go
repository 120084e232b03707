package cq

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Group is a completion channel and the queues on it, of one device. One
// goroutine owns it and its queues; only it may call.
type Group struct {
	dev     verbs.Device
	config  Config
	channel verbs.CompChannel
	fd      int

	queues   []*Queue            // in the order they were made
	byCookie slots.Table[*Queue] // the cookie of an event is a handle
	stats    Stats
	closed   bool
}

// NewGroup makes a completion channel on dev. A cfg of nil means the defaults;
// it is copied. The error is a *verbs.OpError: a *verbs.ParamError that names
// the field, or what the device said.
func NewGroup(dev verbs.Device, cfg *Config) (*Group, error) {
	config, err := cfg.resolve(dev.Attr().NumCompVectors)
	if err != nil {
		return nil, verbs.Wrap("create completion channel", err)
	}
	channel, err := dev.CreateCompChannel(&verbs.CompChannelAttr{Vector: config.Vector, Progress: config.Progress})
	if err != nil {
		return nil, verbs.Wrap("create completion channel", err)
	}
	return &Group{dev: dev, config: config, channel: channel, fd: channel.FD()}, nil
}

// FD is the descriptor to sleep on, for input, level-triggered; -1 after Close.
// When it is readable Consume is due. It belongs to the group: never read,
// write or close it.
func (g *Group) FD() int { return g.fd }

// NewQueue makes a CQ that can hold at least depth completions, none of them
// reserved. The error is a *verbs.OpError: a *verbs.ParamError when depth is out
// of the device's range, verbs.ErrClosed, or what the device said.
func (g *Group) NewQueue(depth int) (*Queue, error) {
	const op = "create CQ"
	if g.closed {
		return nil, verbs.Wrap(op, verbs.ErrClosed)
	}
	if limit := g.dev.Attr().MaxCQE; depth < 1 || depth > limit {
		return nil, verbs.Wrap(op, depthError(depth, limit))
	}
	q := &Queue{group: g, batch: make([]verbs.WC, g.config.Batch)}
	q.cookie = g.byCookie.Put(q)
	cq, err := g.dev.CreateCQ(&verbs.CQAttr{
		Depth:    depth,
		Channel:  g.channel,
		Cookie:   uint64(q.cookie),
		Vector:   g.config.Vector,
		Progress: g.config.Progress,
	})
	if err != nil {
		g.byCookie.Remove(q.cookie)
		return nil, verbs.Wrap(op, err)
	}
	q.cq = cq
	q.spins, _ = cq.(verbs.SpinPoller)
	g.queues = append(g.queues, q)
	return q, nil
}

func depthError(depth, limit int) error {
	e := &verbs.ParamError{Field: "depth", Value: int64(depth), Limit: int64(limit)}
	if depth < 1 {
		e.Reason = "less than 1"
	}
	return e
}

func (g *Group) forget(q *Queue) {
	g.byCookie.Remove(q.cookie)
	g.queues = slices.DeleteFunc(g.queues, func(o *Queue) bool { return o == q })
}

// Close closes the channel. It returns verbs.ErrBusy, and changes nothing, as
// long as a queue is open. A second Close does nothing. Afterwards every call
// that can fail returns verbs.ErrClosed.
func (g *Group) Close() error {
	const op = "close completion channel"
	if g.closed {
		return nil
	}
	if len(g.queues) > 0 {
		return verbs.Wrap(op, verbs.ErrBusy)
	}
	if err := g.channel.Close(); err != nil {
		return verbs.Wrap(op, err)
	}
	g.closed, g.fd = true, -1
	return nil
}
