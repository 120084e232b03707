package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// orderSize is the size of an order in bytes: its number, and what an exchange would need.
const orderSize = 64

// ackSize is the size of an acknowledgement in bytes: the number of the order, and the time
// at which it has arrived, in nanoseconds since 1970.
const ackSize = 16

// errBadMessage ends a connection to a peer that does not keep to the protocol.
var errBadMessage = errors.New("message has a wrong length or number")

// An exchange acknowledges orders.
type exchange struct{ reactor.BaseHandler }

// serve runs an exchange until ctx ends.
func serve(ctx context.Context, o *options) error {
	at, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return err
	}
	engine, stop, err := o.start(exchange{}, true)
	if err != nil {
		return err
	}
	l, err := engine.Listen(at.AddrPort(), nil)
	if err == nil {
		fmt.Printf("listening on %v\n", l.Addr())
		<-ctx.Done()
	}
	return errors.Join(err, stop())
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
	binary.LittleEndian.PutUint64(ack[8:], uint64(time.Now().UnixNano()))
	if err := c.Send(ack[:]); err != nil {
		_ = c.Abort(err)
	}
}
