package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// A message is a request or its answer. On the network it has the number in 4 bytes, little
// endian, the kind in 1 byte, and the body. The answers may have another order than the
// requests.
type message struct {
	number uint32 // of the request
	kind   uint8  // method of a request, status of an answer
	body   []byte
}

// Methods.
const (
	upper = iota // the body in capital letters
	sum          // the SHA-256 of the body
	wait         // waits for the time in the body, as for a disk or another server
)

// Statuses of answers. The body of a failure is its text.
const done, failed = 0, 1

// Codes of the reasons with which the server closes a connection.
const badRequest, stopping = 1, 2

// Sizes in bytes.
const headerSize, maxMessage = 5, 1024

func (m message) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, m.number)
	return append(append(b, m.kind), m.body...)
}

// decode returns a message whose body is a part of b, which has at most maxMessage bytes.
func decode(b []byte) (message, error) {
	if len(b) < headerSize {
		return message{}, fmt.Errorf("message of %d bytes: the header has %d", len(b), headerSize)
	}
	return message{binary.LittleEndian.Uint32(b), b[4], b[headerSize:]}, nil
}

// A client calls each method, and prints the answers in the order in which they come.
type client struct {
	reactor.BaseHandler
	missing map[uint32]string // name of the method by number of the request
	ended   chan error        // gets why the client ends
}

// call runs a client.
func call(ctx context.Context, addr netip.AddrPort) error {
	cl := &client{missing: map[uint32]string{}, ended: make(chan error, 2)}
	return withEngine(addr.Addr(), cl, &reactor.Config{MaxMessage: maxMessage}, time.Second, func(e *reactor.Engine) error {
		if err := e.Dial(addr, nil); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { cl.ended <- context.Cause(ctx) })
		return <-cl.ended
	})
}

// OnDialError reports why there is no connection. A server that refuses a client says why.
func (cl *client) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	if reject, ok := errors.AsType[*cm.RejectError](err); ok && reject.ByApplication {
		err = fmt.Errorf("the server refuses: %q", reject.Text())
	}
	cl.ended <- err
}

func (cl *client) OnOpen(c *reactor.Conn) {
	names := [...]string{upper: "upper", sum: "sum", wait: "wait"}
	for _, r := range []message{{1, wait, []byte("100ms")}, {2, sum, []byte("hello")}, {3, upper, []byte("hello")}} {
		cl.missing[r.number] = names[r.kind]
		if err := c.Send(r.encode(), nil); err != nil {
			_ = c.Abort(err) // It can fail only if the connection has ended.
		}
	}
}

func (cl *client) OnMessage(c *reactor.Conn, m reactor.Message) {
	answer, err := decode(m.Data())
	name := cl.missing[answer.number]
	if err != nil || name == "" || answer.kind > failed {
		_ = c.Abort(errors.New("the server has sent something that is not an answer"))
		return
	}
	fmt.Printf("%s: %s %q\n", name, [...]string{done: "done", failed: "failed"}[answer.kind], answer.body)
	if delete(cl.missing, answer.number); len(cl.missing) == 0 {
		_ = c.Close()
	}
}

// OnClose ends the client. The error has the reason that the server gives.
func (cl *client) OnClose(_ *reactor.Conn, err error) { cl.ended <- err }
