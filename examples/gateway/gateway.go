package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

const (
	// orderSize is the size of an order in bytes: its number, and what an exchange would need.
	orderSize = 64
	// ackSize is the size of an acknowledgement in bytes: the number of the order, and the
	// time at which it has arrived, in nanoseconds since 1970.
	ackSize = 16
)

// errBadMessage ends a connection to a peer that does not keep to the protocol.
var errBadMessage = errors.New("message has a wrong length or number")

// An exchange acknowledges orders.
type exchange struct{ reactor.BaseHandler }

// serve runs an exchange until ctx ends.
func serve(ctx context.Context, o *options) error {
	at, err := cm.ListenAddr(ctx, o.listen)
	if err != nil {
		return err
	}
	if o.path == soft.PathWire && at.Addr().IsUnspecified() { // Each process needs an address of its own.
		own, _ := latency.Loopback()
		at = netip.AddrPortFrom(own, at.Port())
	}
	// The two exchanges share a processor, so their loops sleep.
	return o.withEngine(exchange{}, reactor.IdleAdaptive, func(e *reactor.Engine) error {
		l, err := e.Listen(at, &reactor.ListenOptions{MessageTime: true})
		if err == nil {
			fmt.Printf("listening on %v\n", l.Addr())
			<-ctx.Done()
		}
		return err
	})
}

// OnMessage acknowledges an order. A gateway has one order outstanding, so there is room for
// the acknowledgement.
func (exchange) OnMessage(c *reactor.Conn, m reactor.Message) {
	order := m.Data()
	if len(order) != orderSize {
		_ = c.Abort(errBadMessage) // It can fail only if the connection has ended.
		return
	}
	var ack [ackSize]byte
	copy(ack[:8], order)
	binary.LittleEndian.PutUint64(ack[8:], uint64(m.Time().UnixNano()))
	if err := c.Send(ack[:], nil); err != nil {
		_ = c.Abort(err)
	}
}

// A gateway sends orders, one after the other. When its connection ends, it dials the next
// exchange and sends the order that is not acknowledged again. The first exchange may have
// executed that order, so a real gateway would have to ask the exchanges about it.
//
// The callbacks run on the loop, which alone uses the fields.
type gateway struct {
	reactor.BaseHandler
	from      netip.AddrPort
	engine    *reactor.Engine
	exchanges []netip.AddrPort // exchanges that were not dialed yet
	orders    uint64           // number of orders
	acked     uint64           // number of acknowledged orders
	sentAt    time.Time
	trips     latency.Histogram       // from Send to the arrival of the acknowledgement
	arrivals  latency.Histogram       // from Send to the arrival of the order
	lost      time.Time               // when an order was sent to an exchange that has failed
	half      func()                  // is called when half of the orders are acknowledged
	end       context.CancelCauseFunc // ends trade, with errDone after all orders
}

var errDone = errors.New("all orders are acknowledged")

// trade runs a gateway until all orders are acknowledged.
func trade(ctx context.Context, o *options, exchanges []string, half func()) error {
	g := &gateway{from: o.from, orders: o.orders, half: half, trips: latency.New(), arrivals: latency.New()}
	for _, text := range exchanges {
		addr, err := cm.DialAddr(ctx, text)
		if err != nil {
			return err
		}
		g.exchanges = append(g.exchanges, addr)
	}
	ctx, g.end = context.WithCancelCause(ctx)
	err := o.withEngine(g, reactor.IdleBusy, func(e *reactor.Engine) error {
		g.engine = e
		g.dial(nil)
		<-ctx.Done()
		return nil
	})
	if cause := context.Cause(ctx); err != nil || cause != errDone {
		return cmp.Or(err, cause)
	}
	// The loop has ended, so its fields can be read.
	fmt.Printf("%d orders acknowledged\n", g.acked)
	fmt.Printf("from an order to its acknowledgement:\n%v%s", g.trips.Percentiles(), g.trips.Chart())
	fmt.Printf("from an order to its arrival:\n%v", g.arrivals.Percentiles())
	return nil
}

// dial connects to the next exchange, after the given failure of the one before, or nil.
func (g *gateway) dial(cause error) {
	if len(g.exchanges) == 0 {
		g.end(fmt.Errorf("no exchange is left: %w", cause))
		return
	}
	addr := g.exchanges[0]
	g.exchanges = g.exchanges[1:]
	if err := g.engine.Dial(addr, &reactor.DialOptions{LocalAddr: g.from, Timeout: time.Second, MessageTime: true}); err != nil {
		g.end(err)
	}
}

func (g *gateway) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	fmt.Println(err)
	g.dial(err)
}

// OnOpen sends the first order that is not acknowledged.
func (g *gateway) OnOpen(c *reactor.Conn) { g.send(c) }

func (g *gateway) send(c *reactor.Conn) {
	var order [orderSize]byte
	binary.LittleEndian.PutUint64(order[:], g.acked)
	g.sentAt = time.Now()
	if err := c.Send(order[:], nil); err != nil {
		_ = c.Abort(err) // It can fail only if the connection has ended.
	}
}

// OnMessage records the times of the order, and sends the next one.
func (g *gateway) OnMessage(c *reactor.Conn, m reactor.Message) {
	ack := m.Data()
	if len(ack) != ackSize || binary.LittleEndian.Uint64(ack) != g.acked {
		_ = c.Abort(errBadMessage)
		return
	}
	if !g.lost.IsZero() {
		fmt.Printf("%v without an acknowledgement, then from %v\n", m.Time().Sub(g.lost).Round(time.Microsecond), c.Info().RemoteAddr)
		g.lost = time.Time{}
	} else {
		g.trips.Record(m.Time().Sub(g.sentAt))
		g.arrivals.Record(time.Unix(0, int64(binary.LittleEndian.Uint64(ack[8:]))).Sub(g.sentAt))
	}
	switch g.acked++; g.acked {
	case g.orders:
		g.end(errDone)
		return
	case g.orders / 2:
		g.half()
	}
	g.send(c)
}

// OnClose goes on with the next exchange, unless all orders are acknowledged.
func (g *gateway) OnClose(_ *reactor.Conn, err error) {
	if g.acked < g.orders {
		fmt.Printf("the connection has ended: %v\n", err)
		g.lost = g.sentAt
		g.dial(err)
	}
}
