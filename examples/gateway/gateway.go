package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/examples/latency"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A gateway sends orders, one after the other. When its connection ends, it dials the next
// exchange and sends the order that is not acknowledged again. The first exchange may have
// executed that order, so a real gateway would have to ask the exchanges about it.
//
// The callbacks run on the loop, which alone uses the fields.
type gateway struct {
	reactor.BaseHandler
	from      netip.AddrPort
	engine    *reactor.Engine
	exchanges []netip.AddrPort
	dials     int
	orders    uint64 // number of orders
	acked     uint64 // number of acknowledged orders
	order     [orderSize]byte
	sentAt    time.Time
	trips     latency.Histogram // from Send to OnMessage
	arrivals  latency.Histogram // from Send to the time that the exchange reports
	lost      time.Time         // time of the last answer of an exchange that has failed
	half      func()            // is called when half of the orders are acknowledged
	done      chan error
}

// trade runs a gateway until all orders are acknowledged.
func trade(ctx context.Context, o *options, exchanges []string, half func()) error {
	g := &gateway{from: o.from, orders: o.orders, half: half, trips: latency.New(), arrivals: latency.New(), done: make(chan error, 1)}
	for _, text := range exchanges {
		addr, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			return err
		}
		g.exchanges = append(g.exchanges, addr.AddrPort())
	}
	engine, stop, err := o.start(g, false)
	if err != nil {
		return err
	}
	g.engine = engine
	g.dial(nil)
	select {
	case err = <-g.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	// The loop has ended, so its fields can be read.
	fmt.Printf("%d orders acknowledged\n", g.acked)
	fmt.Printf("from an order to its acknowledgement:\n%v%s", g.trips.Percentiles(), g.trips.Chart())
	fmt.Printf("from an order to its arrival:\n%v", g.arrivals.Percentiles())
	return nil
}

// dial connects to the next exchange. It gives up when all have failed one after the other.
func (g *gateway) dial(cause error) {
	if g.dials == len(g.exchanges) {
		g.finish(fmt.Errorf("no exchange is left: %w", cause))
		return
	}
	addr := g.exchanges[g.dials]
	g.dials++
	if err := g.engine.Dial(addr, &reactor.DialOptions{LocalAddr: g.from, Timeout: time.Second}); err != nil {
		g.finish(err)
	}
}

// finish ends the program, if nothing has ended it before.
func (g *gateway) finish(err error) {
	select {
	case g.done <- err:
	default:
	}
}

// OnDialError tries the next exchange.
func (g *gateway) OnDialError(_ *reactor.DialOptions, err error) {
	fmt.Println(err)
	g.dial(err)
}

// OnOpen sends the first order, or that for which the last exchange has sent no
// acknowledgement.
func (g *gateway) OnOpen(c *reactor.Conn) {
	if g.acked < g.orders {
		g.send(c)
	}
}

func (g *gateway) send(c *reactor.Conn) {
	binary.LittleEndian.PutUint64(g.order[:], g.acked)
	g.sentAt = time.Now()
	if err := c.Send(g.order[:]); err != nil {
		_ = c.Abort(err) // It can fail only if the connection has ended.
	}
}

// OnMessage records the times of the order, and sends the next one.
func (g *gateway) OnMessage(c *reactor.Conn, m reactor.Message) {
	now, ack := time.Now(), m.Data()
	if len(ack) != ackSize || binary.LittleEndian.Uint64(ack) != g.acked {
		_ = c.Abort(errBadMessage)
		return
	}
	if !g.lost.IsZero() {
		fmt.Printf("%v without an acknowledgement, then from %v\n", now.Sub(g.lost).Round(time.Microsecond), c.RemoteAddr())
		g.lost = time.Time{}
	} else {
		g.trips.Record(now.Sub(g.sentAt))
		g.arrivals.Record(time.Unix(0, int64(binary.LittleEndian.Uint64(ack[8:]))).Sub(g.sentAt))
	}
	if g.acked++; g.acked == g.orders {
		g.finish(nil)
		return
	}
	if g.acked == g.orders/2 {
		g.half()
	}
	g.send(c)
}

// OnClose goes on with the next exchange, unless all orders are acknowledged.
func (g *gateway) OnClose(_ *reactor.Conn, err error) {
	if g.acked == g.orders {
		return
	}
	fmt.Printf("the connection has ended: %v\n", err)
	g.lost = g.sentAt
	g.dial(err)
}
