package reactor_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// This example sends two messages that are longer than Config.MaxMessage. The receiver
// takes the first one whole. The second one is longer than the memory that the receiver
// uses for long messages, so it takes that message in parts.
func ExampleLongMessage() {
	receiver := &partReceiver{done: make(chan bool, 1)}
	server, end := runLong(receiver)
	defer end()
	listener, err := server.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	check(err)
	client, endClient := runLong(&longSending{})
	defer endClient()
	check(client.Dial(listener.Addr(), nil))
	<-receiver.done
	// Output:
	// whole message of 1000000 bytes
	// message of 3000000 bytes in 12 parts
}

// runLong starts an engine that accepts messages of up to 16 MiB. A connection needs at
// most 1 MiB of memory for them. runLong returns a function that ends the engine.
func runLong(h reactor.Handler) (engine *reactor.Engine, stop func()) {
	device, err := soft.Open(nil)
	check(err)
	config := &reactor.Config{MaxLongMessage: 16 << 20, Memory: reactor.Memory{LongConnBytes: 1 << 20}}
	engine, err = reactor.New(device, h, config)
	check(err)
	check(engine.Start())
	return engine, func() {
		check(engine.Shutdown(context.Background()))
		check(device.Close())
	}
}

type longSending struct{ dialer }

// OnOpen sends the messages. Send copies them to memory that the receiver can read.
func (*longSending) OnOpen(c *reactor.Conn) {
	check(c.Send(make([]byte, 1_000_000), nil))
	check(c.Send(make([]byte, 3_000_000), nil))
}

type partReceiver struct {
	reactor.BaseHandler
	parts int
	done  chan bool
}

// OnLongMessage chooses parts for messages of more than 1 MiB.
func (*partReceiver) OnLongMessage(_ *reactor.Conn, m *reactor.LongMessage) {
	if m.Len() > 1<<20 {
		m.Parts()
	}
}

func (*partReceiver) OnMessage(_ *reactor.Conn, m reactor.Message) {
	fmt.Println("whole message of", len(m.Data()), "bytes")
}

func (r *partReceiver) OnPart(_ *reactor.Conn, m *reactor.LongMessage, part reactor.Message) {
	if r.parts++; m.Offset()+len(part.Data()) == m.Len() {
		fmt.Println("message of", m.Len(), "bytes in", r.parts, "parts")
		r.done <- true
	}
}
