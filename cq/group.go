package cq

import (
	"slices"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/internal/slots"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Group is a completion channel of one device, with its Queues. One goroutine owns the
// Group, and only this goroutine may call the methods of the Group and its Queues.
type Group struct {
	dev     verbs.Device
	config  Config
	channel verbs.CompChannel
	fd      int
	queues  []*Queue // open queues, in the order of creation
	// open queues by cookie; the cookie of an event is a handle in this table
	byCookie slots.Table[*Queue]
	stats    Stats
	closed   bool
}

// NewGroup creates a completion channel on dev. A nil cfg means the defaults. NewGroup
// copies cfg. The error is a *verbs.OpError around a *verbs.ParamError or the device's
// error.
func NewGroup(dev verbs.Device, cfg *Config) (*Group, error) {
	config, err := cfg.resolve(dev.Attr().NumCompVectors)
	if err != nil {
		return nil, operr.Wrap("create completion channel", err)
	}
	channel, err := dev.CreateCompChannel(&verbs.CompChannelAttr{Vector: config.Vector, Progress: config.Progress})
	if err != nil {
		return nil, operr.Wrap("create completion channel", err)
	}
	return &Group{dev: dev, config: config, channel: channel, fd: channel.FD()}, nil
}

// FD returns the descriptor of the channel, for level-triggered polling. The owner
// sleeps until the descriptor is readable, and then calls Consume. Callers never read,
// write or close the descriptor. After Close, FD returns -1.
func (g *Group) FD() int { return g.fd }

// NewQueue creates a CQ that can hold at least depth completions. No places are reserved
// yet. Source: ibv_create_cq(3).
//
// The error is a *verbs.OpError. It wraps verbs.ErrClosed, the device's error, or a
// *verbs.ParamError if the depth is out of range.
func (g *Group) NewQueue(depth int) (*Queue, error) {
	const op = "create CQ"
	if g.closed {
		return nil, operr.Wrap(op, verbs.ErrClosed)
	}
	if limit := g.dev.Attr().MaxCQE; depth < 1 || depth > limit {
		return nil, operr.Wrap(op, depthError(depth, limit))
	}
	q := &Queue{group: g, batch: make([]verbs.WC, g.config.Batch)}
	if g.config.Inline && g.dev.Caps().RecvModes {
		q.data = make([]verbs.InlineData, len(q.batch))
	}
	q.cookie = g.byCookie.Put(q)
	cq, err := g.dev.CreateCQ(&verbs.CQAttr{
		Depth:    depth,
		Channel:  g.channel,
		Cookie:   uint64(q.cookie),
		Inline:   q.data,
		Vector:   g.config.Vector,
		Progress: g.config.Progress,
	})
	if err != nil {
		g.byCookie.Remove(q.cookie)
		return nil, operr.Wrap(op, err)
	}
	q.cq = cq
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

func (g *Group) remove(q *Queue) {
	g.byCookie.Remove(q.cookie)
	g.queues = slices.DeleteFunc(g.queues, func(o *Queue) bool { return o == q })
}

// Stats returns the counters. Only the owner may call it.
func (g *Group) Stats() Stats { return g.stats }

// Close closes the channel. While a queue is open, Close returns verbs.ErrBusy and does
// nothing. After Close, a second Close does nothing, and all other methods with an error
// return verbs.ErrClosed.
func (g *Group) Close() error {
	const op = "close completion channel"
	if g.closed {
		return nil
	}
	if len(g.queues) > 0 {
		return operr.Wrap(op, verbs.ErrBusy)
	}
	if err := g.channel.Close(); err != nil {
		return operr.Wrap(op, err)
	}
	g.closed, g.fd = true, -1
	return nil
}
