// Package client reads a bbolt database of another process by one-sided READs.
package client

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/kvread/message"
	"github.com/rdmaloop/rdmaloop/examples/kvread/pages"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Errors of this package.
var (
	ErrTransaction = errors.New("kvread: there is no transaction, or one already")
	ErrServer      = errors.New("kvread: the server answers with an error")
	errEnded       = errors.New("closed")
)

// maxPage is the size in bytes of the longest page that a Client reads. A page is longer
// than its value. Arbitrary.
const maxPage = 1 << 20

// DefaultTimeout is how long a transaction may take. Arbitrary.
const DefaultTimeout = 10 * time.Second

// A Config configures a Client.
type Config struct {
	From    netip.AddrPort // local address; the zero value means that the provider chooses
	Timeout time.Duration  // longest duration of a transaction; zero means DefaultTimeout
	Idle    reactor.IdlePolicy
}

// A Client is a connection to a server. Only one goroutine may use it, and its methods
// wait: they run the event loop of the connection until the result is there. After an
// error of the connection, all methods return that error.
type Client struct {
	loop   *reactor.Loop
	conn   *reactor.Conn
	memory *reactor.Region // memory into which the client READs pages
	cfg    Config

	snapshot *pages.Snapshot // version that the transaction reads; nil without one
	file     reactor.Remote  // the server's mapping of the file in this transaction
	pageSize int

	request, answer []byte
	events          events
	err             error // error that has ended the connection, or nil
}

// events counts the events of each kind that have arrived. Client.wait decrements a count
// when it has found an event.
type events struct{ opened, answers, completions int }

// Dial connects to a server.
func Dial(p cm.Provider, addr netip.AddrPort, cfg *Config) (c *Client, err error) {
	c = &Client{cfg: *cfg}
	if c.cfg.Timeout == 0 {
		c.cfg.Timeout = DefaultTimeout
	}
	c.loop, err = reactor.NewLoop(p, &handler{client: c}, &reactor.Config{MaxMessage: message.MaxSize, Idle: cfg.Idle})
	if err != nil {
		return nil, err
	}
	c.memory, err = c.loop.Engine().Alloc(maxPage, verbs.AccessLocalWrite)
	if err == nil {
		err = c.loop.Engine().Dial(addr, &reactor.DialOptions{LocalAddr: cfg.From})
	}
	if err == nil {
		err = c.wait(&c.events.opened)
	}
	if err != nil {
		return nil, errors.Join(err, c.loop.Close())
	}
	return c, nil
}

// Close closes the connection. It ends the transaction, if there is one.
func (c *Client) Close() error { return c.loop.Close() }

// Begin begins a read transaction. The server keeps the pages of this version of the
// store until End.
func (c *Client) Begin() error {
	if c.snapshot != nil {
		return ErrTransaction
	}
	c.conn.SetTimeout(c.cfg.Timeout)
	answer, err := c.ask([]byte{message.Begin})
	if err != nil {
		c.conn.SetTimeout(0)
		return err
	}
	var m message.Snapshot
	if err = m.UnmarshalBinary(answer); err != nil {
		return err
	}
	c.file, c.pageSize = m.File, int(m.PageSize)
	c.snapshot, err = pages.NewSnapshot(c, c.pageSize, m.Root, m.Pages)
	return err
}

// End ends the transaction. No READ is in flight, because Get waits for its READs.
func (c *Client) End() error {
	if c.snapshot == nil {
		return ErrTransaction
	}
	c.snapshot = nil
	c.conn.SetTimeout(0)
	return c.send([]byte{message.End})
}

// Get returns the value of a key. It READs the pages of the store, and the program that
// serves the store does nothing. A nil value means that the bucket does not have the key.
// The value is valid until the next call of the Client.
func (c *Client) Get(bucket, key []byte) ([]byte, error) {
	if c.snapshot == nil {
		return nil, ErrTransaction
	}
	return c.snapshot.Get(bucket, key)
}

// GetByMessage is Get by a message to the server.
func (c *Client) GetByMessage(bucket, key []byte) (value []byte, err error) {
	if c.snapshot == nil {
		return nil, ErrTransaction
	}
	if c.request, err = message.AppendGet(c.request[:0], bucket, key); err != nil {
		return nil, err
	}
	return c.ask(c.request)
}

// ask sends a request and returns the result in its answer, or nil.
func (c *Client) ask(request []byte) ([]byte, error) {
	if err := c.send(request); err != nil {
		return nil, err
	}
	if err := c.wait(&c.events.answers); err != nil {
		return nil, err
	}
	if len(c.answer) == 0 {
		return nil, message.ErrInvalid
	}
	switch result := c.answer[1:]; c.answer[0] {
	case message.Found:
		return result, nil
	case message.NotFound:
		return nil, nil
	case message.Failed:
		return nil, fmt.Errorf("%w: %q", ErrServer, result)
	}
	return nil, message.ErrInvalid
}

func (c *Client) send(request []byte) error {
	if c.err != nil {
		return c.err
	}
	return c.reason(c.conn.Send(request, nil))
}

// reason returns the error of an operation. If the operation was refused because the
// connection is ending, reason waits for OnClose, which says why.
func (c *Client) reason(err error) error {
	if errors.Is(err, reactor.ErrClosed) {
		return c.wait(new(int))
	}
	return err
}

// MaxPages implements pages.Source.
func (c *Client) MaxPages() int { return maxPage / c.pageSize }

// ReadPages implements pages.Source.
func (c *Client) ReadPages(id uint64, count int) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	n := count * c.pageSize
	from := reactor.Remote{Addr: c.file.Addr + id*uint64(c.pageSize), RKey: c.file.RKey}
	err := c.conn.Read(from, nil, reactor.Piece{Region: c.memory, Length: n})
	if err == nil {
		err = c.wait(&c.events.completions)
	}
	if err != nil {
		return nil, c.reason(err)
	}
	return c.memory.Bytes()[:n], nil
}

// wait runs the loop until *event is not zero, and decrements it.
func (c *Client) wait(event *int) error {
	for *event == 0 {
		if c.err != nil {
			return c.err
		}
		if _, err := c.loop.RunOnce(-1); err != nil {
			return err
		}
	}
	*event--
	return nil
}

// A handler has the callbacks of a Client.
type handler struct {
	reactor.BaseHandler
	client *Client
}

// OnOpen stores the connection.
func (h *handler) OnOpen(c *reactor.Conn) {
	h.client.conn = c
	h.client.events.opened++
}

// OnMessage stores an answer.
func (h *handler) OnMessage(_ *reactor.Conn, msg reactor.Message) {
	h.client.answer = append(h.client.answer[:0], msg.Data()...)
	h.client.events.answers++
}

// OnCompletion counts a READ that has succeeded. After a failed one, OnClose follows.
func (h *handler) OnCompletion(_ *reactor.Conn, _ reactor.Op, err error) {
	if err == nil {
		h.client.events.completions++
	}
}

// OnClose stores why the connection has ended.
func (h *handler) OnClose(_ *reactor.Conn, err error) {
	if err == nil {
		err = errEnded
	}
	h.client.err = fmt.Errorf("connection to the server: %w", err)
}

// OnDialError stores why there is no connection.
func (h *handler) OnDialError(_ *reactor.Loop, _ netip.AddrPort, _ *reactor.DialOptions, err error) {
	h.client.err = err
}
