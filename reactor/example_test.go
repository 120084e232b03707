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
	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// serve lets peers in at the address that it returns, as another process would;
// end closes that down.
func serve(h reactor.Handler) (addr netip.AddrPort, end func()) {
	engine, end := run(h)
	listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	check(err)
	return listener.Addr(), end
}

// run starts an engine on an RDMA device in software; end closes both.
func run(h reactor.Handler) (engine *reactor.Engine, end func()) {
	device, err := soft.Open(nil)
	check(err)
	engine, err = reactor.New(device, h, nil)
	check(err)
	check(engine.Start())
	return engine, func() {
		check(engine.Shutdown(context.Background()))
		check(device.Close())
	}
}

// A dialer is a Handler for which a failed Dial is the end.
type dialer struct{ reactor.BaseHandler }

func (dialer) OnDialError(_ *reactor.Dial, err error) { check(err) }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// One-sided operations: the server shows a region of its memory to whoever
// connects, by private data with address and key. The client writes and reads
// there, and the server's handler has nothing to do with it.
func ExampleConn_Write() {
	addr, end := serve(&region{})
	defer end()
	user := &regionUser{done: make(chan error, 1)}
	client, endClient := run(user)
	defer endClient()
	check(client.Dial(addr, nil))
	check(<-user.done)
	// Output: there is now: hello
}

type region struct {
	reactor.BaseHandler
	memory verbs.MR
}

// OnBoot is called once for each loop, and this engine has one.
func (r *region) OnBoot(l *reactor.Loop) (err error) {
	r.memory, err = l.Alloc(64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	return err
}

func (r *region) OnConnectRequest(req *reactor.ConnRequest) {
	key, err := reactor.RemoteOf(r.memory).AppendBinary(nil)
	check(err)
	check(req.Accept(&reactor.AcceptParams{PrivateData: key}))
}

type regionUser struct {
	dialer
	memory verbs.MR
	done   chan error
}

// OnOpen writes and reads at once: a READ finds what a WRITE before it did.
func (u *regionUser) OnOpen(c *reactor.Conn) {
	var there reactor.Remote
	err := there.UnmarshalBinary(c.PeerPrivateData())
	if err != nil {
		c.Abort(err) // the peer shows no region
		return
	}
	u.memory, err = c.Loop().Alloc(64, verbs.AccessLocalWrite)
	check(err)
	n := copy(u.memory.Bytes(), "hello")
	check(c.Write(verbs.SGEOf(u.memory, 0, n), there, reactor.SendOptions{}))
	check(c.Read(verbs.SGEOf(u.memory, 32, n), there, reactor.SendOptions{}))
}

// OnCompletion gives the memory back; an error will be that of OnClose too.
func (u *regionUser) OnCompletion(c *reactor.Conn, op reactor.Op, err error) {
	if err == nil && op.Code == verbs.OpRead {
		fmt.Printf("there is now: %s\n", u.memory.Bytes()[32:32+op.Bytes])
		c.Close()
	}
}

func (u *regionUser) OnClose(_ *reactor.Conn, err error) { u.done <- err }

// Backpressure: a full send queue takes nothing more, and OnWritable tells when
// to go on.
func ExampleConn_Send_backpressure() {
	count := &counter{total: make(chan int, 1)}
	addr, end := serve(count)
	defer end()
	client, endClient := run(&flood{left: 1000})
	check(client.Dial(addr, nil))
	fmt.Println("received:", <-count.total)
	endClient()
	fmt.Println("had to wait:", client.Stats().QueueFull > 0)
	// Output:
	// received: 1000
	// had to wait: true
}

type flood struct {
	dialer
	left int
}

func (f *flood) OnOpen(c *reactor.Conn)     { f.send(c) }
func (f *flood) OnWritable(c *reactor.Conn) { f.send(c) }

// send sends until it is refused, which OnWritable follows, and closes at the
// end. Close delivers first what was accepted.
func (f *flood) send(c *reactor.Conn) {
	for ; f.left > 0; f.left-- {
		err := c.Send([]byte("more"))
		if errors.Is(err, reactor.ErrWouldBlock) {
			return
		}
		check(err)
	}
	c.Close()
}

// A counter tells how many messages came before the peer closed.
type counter struct {
	reactor.BaseHandler
	n     int
	total chan int
}

func (t *counter) OnMessage(*reactor.Conn, reactor.Message) { t.n++ }
func (t *counter) OnClose(*reactor.Conn, error)             { t.total <- t.n }

// Sending without a copy: the message is made in registered memory.
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

// OnOpen leases a buffer, and appends to its bytes, of which there are none yet.
func (*formatter) OnOpen(c *reactor.Conn) {
	buf, err := c.Lease()
	check(err)
	text := fmt.Appendf(buf.Bytes(), "%d times %d is %d", 6, 7, 6*7)
	check(buf.SetLen(len(text)))
	sendBuffer(c, buf)
}

// sendBuffer hands buf over; if the connection does not take it, it goes back.
func sendBuffer(c *reactor.Conn, buf *reactor.Buffer) {
	if err := c.SendBuffer(buf); err != nil {
		check(buf.Release())
		c.Abort(err)
	}
}

type echoServer struct{ reactor.BaseHandler }

func (echoServer) OnMessage(c *reactor.Conn, msg reactor.Message) {
	if err := c.Send(msg.Data()); err != nil {
		c.Abort(err)
	}
}

// An asker sends one message, and hands over the answer.
type asker struct {
	dialer
	question string
	answer   chan string
}

func (a *asker) OnOpen(c *reactor.Conn) { check(c.Send([]byte(a.question))) }

func (a *asker) OnMessage(_ *reactor.Conn, msg reactor.Message) { a.answer <- string(msg.Data()) }

// Work that takes long leaves the loop: the message is kept, another goroutine
// works on it, and a posted function sends the answer.
func ExampleMessage_Keep() {
	addr, end := serve(&worker{})
	defer end()
	client := &asker{question: "olleh", answer: make(chan string, 1)}
	engine, endClient := run(client)
	defer endClient()
	check(engine.Dial(addr, nil))
	fmt.Println(<-client.answer)
	// Output: hello
}

type worker struct {
	reactor.BaseHandler
	busy sync.WaitGroup
}

// OnMessage keeps the message and lends its bytes to a goroutine. All else that
// belongs to the loop is used on it: before that, and in what is posted.
func (w *worker) OnMessage(c *reactor.Conn, msg reactor.Message) {
	loop, buf, text := c.Loop(), msg.Keep(), msg.Data()
	w.busy.Go(func() {
		slices.Reverse(text)
		err := loop.Post(func() { sendBuffer(c, buf) })
		if err != nil {
			fmt.Println("the loop has ended, or too much to do:", err)
		}
	})
}

// OnShutdown waits: the memory of messages that were kept ends with the loop.
func (w *worker) OnShutdown(*reactor.Loop) { w.busy.Wait() }

// Private data says what the client wants; that of the refusal, why it does not
// get it.
func ExampleConnRequest_Reject() {
	addr, end := serve(library{titles: map[string]bool{"Emma": true}})
	defer end()
	client := reader{answer: make(chan string, 1)}
	engine, endClient := run(client)
	defer endClient()
	for _, title := range []string{"Emma", "Ulysses"} {
		check(engine.Dial(addr, &reactor.Dial{PrivateData: []byte(title)}))
		fmt.Println(<-client.answer)
	}
	// Output:
	// let in
	// refused: no such book
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

func (r reader) OnOpen(*reactor.Conn) { r.answer <- "let in" }

// OnDialError gets refusals, and what else keeps a connection from opening:
// nobody listens there, or nobody answers.
func (r reader) OnDialError(_ *reactor.Dial, err error) {
	if refusal, ok := errors.AsType[*cm.RejectError](err); ok && refusal.ByApplication {
		r.answer <- "refused: " + unpadded(refusal.PrivateData)
	} else {
		r.answer <- err.Error()
	}
}

// unpadded is private data without the zeros that most devices add.
func unpadded(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// An orderly end: what was accepted for sending is delivered before Shutdown
// returns, unless the context ends first.
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
		check(c.Send([]byte("one of many")))
	}
	b.sent <- struct{}{}
}

// OnClose gets no error when the peer has everything.
func (b batch) OnClose(_ *reactor.Conn, err error) { fmt.Println("closed:", err) }

// A loop inside another: the program has an epoll of its own, and waits there
// for the loop too.
func ExampleLoop_Arm() {
	addr, end := serve(echoServer{})
	defer end()
	device, err := soft.Open(nil)
	check(err)
	defer device.Close()
	loop, err := reactor.NewLoop(device, asking{}, nil)
	check(err)
	check(loop.Dial(addr, nil))

	epoll, err := poller.New(64) // which has the program's other descriptors as well
	check(err)
	defer epoll.Close()
	_, err = epoll.Add(loop.FD(), poller.Readable, 0)
	check(err)
	for {
		work, err := loop.RunOnce(0)
		if errors.Is(err, reactor.ErrClosed) {
			break
		}
		check(err)
		if work > 0 {
			continue // until there is nothing to do
		}
		busy, err := loop.Arm()
		check(err)
		if !busy {
			_, err = epoll.Wait(-1)
			check(err)
		}
	}
	// Output: hello
}

// A loop on the goroutine of the program, where RunOnce does all the waiting.
func ExampleNewLoop() {
	addr, end := serve(echoServer{})
	defer end()
	device, err := soft.Open(nil)
	check(err)
	defer device.Close()
	loop, err := reactor.NewLoop(device, asking{}, nil)
	check(err)
	check(loop.Dial(addr, nil))
	for !errors.Is(err, reactor.ErrClosed) {
		check(err)
		_, err = loop.RunOnce(-1)
	}
	// Output: hello
}

// asking ends its loop with the first answer.
type asking struct{ dialer }

func (asking) OnOpen(c *reactor.Conn) { check(c.Send([]byte("hello"))) }

func (asking) OnMessage(c *reactor.Conn, msg reactor.Message) {
	fmt.Printf("%s\n", msg.Data())
	c.Loop().Stop()
}
