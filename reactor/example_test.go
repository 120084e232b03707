package reactor_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// serve starts a server with the handler h. It returns the server's address and a
// function that stops the server.
func serve(h reactor.Handler) (addr netip.AddrPort, stop func()) {
	engine, stop := run(h)
	listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	check(err)
	return listener.Addr(), stop
}

// run starts an engine on a software device. It returns the engine and a function that
// closes both.
func run(h reactor.Handler) (engine *reactor.Engine, stop func()) { return runWith(h, nil) }

func runWith(h reactor.Handler, cfg *reactor.Config) (engine *reactor.Engine, stop func()) {
	device, err := soft.Open(nil)
	check(err)
	engine, err = reactor.New(device, h, cfg)
	check(err)
	check(engine.Start())
	return engine, func() {
		check(engine.Shutdown(context.Background()))
		check(device.Close())
	}
}

// A dialer is a Handler that panics if it can not connect.
type dialer struct{ reactor.BaseHandler }

func (dialer) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	check(err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// This example shows backpressure: a full send queue makes Send return ErrWouldBlock.
// OnWritable is called when there is room.
func ExampleConn_Send_backpressure() {
	count := &counter{total: make(chan int, 1)}
	addr, end := serve(count)
	defer end()
	client, endClient := run(&sender{left: 1000})
	check(client.Dial(addr, nil))
	fmt.Println("received:", <-count.total)
	endClient()
	fmt.Println("had to wait:", client.Stats().QueueFull > 0)
	// Output:
	// received: 1000
	// had to wait: true
}

type sender struct {
	dialer
	left int
}

func (s *sender) OnOpen(c *reactor.Conn)     { s.send(c) }
func (s *sender) OnWritable(c *reactor.Conn) { s.send(c) }

// send sends messages until Send returns ErrWouldBlock. OnWritable calls it again. After
// the last message, Close delivers what Send has accepted.
func (s *sender) send(c *reactor.Conn) {
	for ; s.left > 0; s.left-- {
		err := c.Send([]byte("more"), nil)
		if errors.Is(err, reactor.ErrWouldBlock) {
			return
		}
		check(err)
	}
	c.Close()
}

// This example shows a server whose answers wait for room in the send queue: echoServer.
// The client sends what its own send queue takes, and reads every answer at once.
func ExampleConn_Send_answers() {
	addr, end := serve(echoServer{})
	defer end()
	client := &flooder{left: 10_000, total: make(chan int, 1)}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	fmt.Println("answers:", <-client.total)
	// Output: answers: 10000
}

// A flooder sends messages as fast as it can, and counts the answers.
type flooder struct {
	dialer
	left, unanswered, answers int
	total                     chan int
}

func (f *flooder) OnOpen(c *reactor.Conn)     { f.send(c) }
func (f *flooder) OnWritable(c *reactor.Conn) { f.send(c) }

func (f *flooder) send(c *reactor.Conn) {
	for ; f.left > 0 && c.Send([]byte("ping"), nil) == nil; f.left-- {
		f.unanswered++
	}
}

func (f *flooder) OnMessage(c *reactor.Conn, _ reactor.Message) {
	f.answers++
	if f.unanswered--; f.left == 0 && f.unanswered == 0 {
		c.Close()
	}
}

func (f *flooder) OnClose(*reactor.Conn, error) { f.total <- f.answers }

// A counter counts received messages until the connection closes.
type counter struct {
	reactor.BaseHandler
	n     int
	total chan int
}

func (t *counter) OnMessage(*reactor.Conn, reactor.Message) { t.n++ }
func (t *counter) OnClose(*reactor.Conn, error)             { t.total <- t.n }

// This example sends without a copy: it writes the message into registered memory.
func ExampleConn_SendBuffer() {
	addr, end := serve(echoServer{})
	defer end()
	client := &formatter{asker{answer: make(chan string, 1)}}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	fmt.Println(<-client.answer)
	// Output: 6 times 7 is 42
}

type formatter struct{ asker }

// OnOpen formats a text directly into a leased buffer, and sends the buffer.
func (*formatter) OnOpen(c *reactor.Conn) {
	buf, err := c.Lease(0)
	check(err)
	text := fmt.Appendf(buf.Bytes(), "%d times %d is %d", 6, 7, 6*7)
	check(buf.SetLen(len(text)))
	sendBuffer(c, buf)
}

// sendBuffer sends buf. If SendBuffer fails, the application still owns buf; sendBuffer
// then releases it and ends the connection.
func sendBuffer(c *reactor.Conn, buf *reactor.Buffer) {
	if err := c.SendBuffer(buf, nil); err != nil {
		check(buf.Release())
		c.Abort(err)
	}
}

// echoServer sends every message back. When the send queue is full, it keeps the messages
// until there is room.
type echoServer struct{ reactor.BaseHandler }

// A backlog has the kept messages of a connection, oldest first.
type backlog struct{ held []*reactor.Buffer }

func (echoServer) OnOpen(c *reactor.Conn) { c.UserData = &backlog{} }

func (echoServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	b := c.UserData.(*backlog)
	if len(b.held) == 0 {
		err := c.Send(msg.Data(), nil)
		if err == nil {
			return
		} else if !errors.Is(err, reactor.ErrWouldBlock) {
			c.Abort(err)
			return
		}
	}
	if buf := msg.Keep(); buf != nil {
		b.held = append(b.held, buf)
	} else {
		c.Abort(errors.New("no memory to keep the message"))
	}
}

// OnWritable sends the kept messages without copying.
func (echoServer) OnWritable(c *reactor.Conn) {
	b := c.UserData.(*backlog)
	for len(b.held) > 0 && c.SendBuffer(b.held[0], nil) == nil {
		b.held = b.held[1:]
	}
}

// OnClose releases the messages that were not sent.
func (echoServer) OnClose(c *reactor.Conn, _ error) {
	for _, buf := range c.UserData.(*backlog).held {
		check(buf.Release())
	}
}

// An asker sends one message and passes the answer to a channel.
type asker struct {
	dialer
	question string
	answer   chan string
}

func (a *asker) OnOpen(c *reactor.Conn) { check(c.Send([]byte(a.question), nil)) }

func (a *asker) OnMessage(_ *reactor.Conn, msg reactor.Message) { a.answer <- string(msg.Data()) }

// This example changes a message on another goroutine. The handler keeps the message,
// and a posted function sends the answer.
func ExampleMessage_Keep() {
	w := &worker{}
	// OnShutdown waits until the goroutines have ended. After it returns, the engine unmaps
	// the kept messages.
	server, end := runWith(w, &reactor.Config{OnShutdown: func(*reactor.Loop) { w.busy.Wait() }})
	defer end()
	listener, err := server.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	check(err)
	client := &asker{question: "olleh", answer: make(chan string, 1)}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(listener.Addr(), nil))
	fmt.Println(<-client.answer)
	// Output: hello
}

type worker struct {
	reactor.BaseHandler
	busy sync.WaitGroup
}

// OnMessage keeps the message and starts a goroutine that changes its bytes. The posted
// function runs on the loop's goroutine again. Only there the buffer can be released.
func (w *worker) OnMessage(c *reactor.Conn, msg reactor.Message) {
	buf := msg.Keep()
	if buf == nil {
		c.Abort(errors.New("no memory to keep the message"))
		return
	}
	w.busy.Go(func() {
		slices.Reverse(buf.Bytes())
		err := c.PostWait(context.Background(), func(err error) {
			if err != nil { // The connection has ended meanwhile.
				check(buf.Release())
				return
			}
			sendBuffer(c, buf)
		})
		if err != nil {
			fmt.Println("the loop has ended:", err)
		}
	})
}

// This example accepts or rejects a request by its private data, a book title. The
// reject carries the reason.
func ExampleConnRequest_Reject() {
	addr, end := serve(library{titles: map[string]bool{"Emma": true}})
	defer end()
	client := reader{answer: make(chan string, 1)}
	engine, endClient := run(client)
	defer endClient()
	for _, title := range []string{"Emma", "Ulysses"} {
		check(engine.Dial(addr, &reactor.DialOptions{PrivateData: []byte(title)}))
		fmt.Println(<-client.answer)
	}
	// Output:
	// accepted
	// rejected: no such book
}

type library struct {
	reactor.BaseHandler
	titles map[string]bool
}

func (l library) OnConnectRequest(req *reactor.ConnRequest) {
	title := unpadded(req.PrivateData())
	if l.titles[title] {
		check(req.Accept(nil))
	} else {
		check(req.Reject([]byte("no such book")))
	}
}

type reader struct {
	reactor.BaseHandler
	answer chan string
}

func (r reader) OnOpen(*reactor.Conn) { r.answer <- "accepted" }

// OnDialError is called when the peer rejects the request. Other causes are a peer that
// does not answer and an address at which no process listens.
func (r reader) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	if reject, ok := errors.AsType[*cm.RejectError](err); ok && reject.ByApplication {
		r.answer <- "rejected: " + reject.Text()
	} else {
		r.answer <- err.Error()
	}
}

// unpadded returns private data without the zeros that most devices append.
func unpadded(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// This example shuts down an engine. Shutdown waits until all accepted messages are
// confirmed or the context is done.
func ExampleEngine_Shutdown() {
	count := &counter{total: make(chan int, 1)}
	addr, end := serve(count)
	defer end()
	client := batch{sent: make(chan struct{}, 1)}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	<-client.sent

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("shut down:", engine.Shutdown(ctx))
	fmt.Println("received:", <-count.total)
	// Output:
	// closed: <nil>
	// shut down: <nil>
	// received: 50
}

type batch struct {
	dialer
	sent chan struct{}
}

func (b batch) OnOpen(c *reactor.Conn) {
	for range 50 {
		check(c.Send([]byte("one of many"), nil))
	}
	b.sent <- struct{}{}
}

// OnClose gets a nil error if the peer has received everything.
func (b batch) OnClose(_ *reactor.Conn, err error) { fmt.Println("closed:", err) }

// This example runs a loop on a goroutine of the program. RunOnce waits for work.
func ExampleNewLoop() {
	addr, end := serve(echoServer{})
	defer end()
	device, err := soft.Open(nil)
	check(err)
	defer device.Close()
	loop, err := reactor.NewLoop(device, askOnce{}, nil)
	check(err)
	check(loop.Engine().Dial(addr, nil))
	for !errors.Is(err, reactor.ErrClosed) {
		check(err)
		_, err = loop.RunOnce(-1)
	}
	// Output: hello
}

// askOnce is a Handler that sends one message, and stops its loop after the answer.
type askOnce struct{ dialer }

func (askOnce) OnOpen(c *reactor.Conn) { check(c.Send([]byte("hello"), nil)) }

func (askOnce) OnMessage(c *reactor.Conn, msg reactor.Message) {
	fmt.Printf("%s\n", msg.Data())
	c.Loop().Engine().Stop()
}
