// Package server lets clients read a bbolt database by one-sided READs.
//
// A client never reads a page that is being written:
//
//   - A client reads only in a read transaction, which the server holds for it.
//   - The pages of a version of the store do not change while a transaction of that
//     version is open: bbolt writes each change to free pages, and the old pages become
//     free when the last transaction that may read them has ended.
//   - The server ends a transaction when the client asks for it, which the client does
//     when all its READs have completed. If the connection ends first, the server ends
//     the transaction in OnClose, when the queue pair executes no READ any more.
//   - The pages were written by write(2) before the transaction began, and the mapping
//     of the file has them: in Linux, both use the page cache. This does not hold for
//     network file systems that other hosts write to.
//
// The pages 0 and 1 are the exception: bbolt overwrites them. The client does not read
// them, because the server sends what they have.
package server

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/kvread/message"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// DefaultLimit is how long a client may hold a transaction. While a transaction is open,
// bbolt can not use old pages again, and can not enlarge its mapping. Arbitrary.
const DefaultLimit = 10 * time.Second

// Errors that end the connection of a client.
var (
	errRequest  = errors.New("kvread: invalid request")
	errSequence = errors.New("kvread: request without a transaction, or a second transaction")
)

// A Server serves a Store. Its fields are not changed after New.
type Server struct {
	reactor.BaseHandler
	store  *Store
	limit  time.Duration
	engine *reactor.Engine
	work   sync.WaitGroup // goroutines that begin or end a transaction
}

// New starts a server. Zero for limit means DefaultLimit.
func New(p cm.Provider, store *Store, limit time.Duration) (*Server, error) {
	if limit == 0 {
		limit = DefaultLimit
	}
	s := &Server{store: store, limit: limit}
	engine, err := reactor.New(p, s, &reactor.Config{MaxMessage: message.MaxSize})
	if err != nil {
		return nil, err
	}
	s.engine, store.engine = engine, engine
	return s, engine.Start()
}

// Listen accepts clients at an address. The result is the address with the port.
func (s *Server) Listen(addr netip.AddrPort) (netip.AddrPort, error) {
	l, err := s.engine.Listen(addr, nil)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return l.Addr(), nil
}

// Close ends all connections and transactions. The store stays open.
func (s *Server) Close(ctx context.Context) error {
	err := s.engine.Shutdown(ctx)
	s.work.Wait()
	return err
}

// A session is the state of one connection. It belongs to the loop of the connection.
type session struct {
	state sessionState
	tx    *Tx // transaction of the client in sessionReading, and else nil
	reply []byte
}

type sessionState uint8

const (
	sessionIdle      sessionState = iota // there is no transaction
	sessionBeginning                     // a goroutine begins a transaction
	sessionReading                       // the client may READ the pages of tx
	sessionClosed                        // the connection has ended
)

// OnOpen makes the session of the connection.
func (s *Server) OnOpen(c *reactor.Conn) { c.UserData = new(session) }

// OnMessage executes a request.
func (s *Server) OnMessage(c *reactor.Conn, msg reactor.Message) {
	ss, request := c.UserData.(*session), msg.Data()
	if len(request) == 0 {
		_ = c.Abort(errRequest)
		return
	}
	switch {
	case request[0] == message.Begin && ss.state == sessionIdle:
		ss.state = sessionBeginning
		s.begin(c, ss)
	case request[0] == message.End && ss.state == sessionReading:
		c.SetTimeout(0)
		ss.state = sessionIdle
		s.end(ss)
	case request[0] == message.Get && ss.state == sessionReading:
		s.get(c, ss, request)
	default:
		_ = c.Abort(errSequence)
	}
}

// OnClose ends the transaction of a client that is gone. The queue pair executes no READ
// of the client any more.
func (s *Server) OnClose(c *reactor.Conn, _ error) {
	ss := c.UserData.(*session)
	ss.state = sessionClosed
	s.end(ss)
}

// begin begins a transaction, on a goroutine because the loop must not wait.
func (s *Server) begin(c *reactor.Conn, ss *session) {
	loop := c.Loop()
	s.work.Go(func() {
		tx, err := s.store.Begin()
		if loop.Post(func() { s.begun(c, ss, tx, err) }) != nil && tx != nil {
			tx.End() // the loop has ended
		}
	})
}

// begun sends the answer to Begin. The transaction is nil after an error.
func (s *Server) begun(c *reactor.Conn, ss *session, tx *Tx, err error) {
	ss.tx = tx
	if ss.state == sessionClosed {
		s.end(ss)
		return
	}
	var answer []byte
	if err == nil {
		answer, err = snapshot(c, tx)
	}
	if err != nil {
		ss.state = sessionIdle
		s.end(ss)
		s.reply(c, ss, message.Failed, []byte(err.Error()))
		return
	}
	ss.state = sessionReading
	c.SetTimeout(s.limit)
	s.reply(c, ss, message.Found, answer)
}

// snapshot encodes what the client needs to read the transaction's version of the store.
func snapshot(c *reactor.Conn, tx *Tx) ([]byte, error) {
	file, err := tx.mapping.region.Remote(c.Info().Device, 0, int(tx.Size()))
	if err != nil {
		return nil, err
	}
	pageSize := tx.DB().Info().PageSize
	m := message.Snapshot{
		PageSize: uint32(pageSize), Root: uint64(tx.Cursor().Bucket().Root()),
		Pages: uint64(tx.Size()) / uint64(pageSize), File: file,
	}
	return m.AppendBinary(nil)
}

// end ends the transaction of a session, if it has one.
func (s *Server) end(ss *session) {
	if tx := ss.tx; tx != nil {
		ss.tx = nil
		s.work.Go(tx.End)
	}
}

// get answers a Get request: the same lookup as by READs, executed by the server.
func (s *Server) get(c *reactor.Conn, ss *session, request []byte) {
	name, key, err := message.ParseGet(request)
	if err != nil {
		_ = c.Abort(errRequest)
		return
	}
	bucket := ss.tx.Bucket(name)
	if bucket == nil {
		s.reply(c, ss, message.Failed, []byte("no such bucket"))
		return
	}
	switch value := bucket.Get(key); {
	case value == nil:
		s.reply(c, ss, message.NotFound, nil)
	case len(value) >= message.MaxSize:
		s.reply(c, ss, message.Failed, []byte("the value is too long for a message"))
	default:
		s.reply(c, ss, message.Found, value)
	}
}

// reply sends an answer. A client that does not wait for its answers is disconnected.
func (s *Server) reply(c *reactor.Conn, ss *session, status byte, result []byte) {
	ss.reply = append(append(ss.reply[:0], status), result...)
	if err := c.Send(ss.reply, nil); err != nil {
		_ = c.Abort(err)
	}
}
