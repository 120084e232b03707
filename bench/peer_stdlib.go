package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

func stdlibPeer() *peer {
	return &peer{
		name:     "stdlib",
		variants: []variant{{"tcp", "event"}},
		fits:     Case.blocks,
		serve:    serveTCP,
		connect:  connectTCP,
	}
}

// A tcpServer is an ordinary server of package net, with a goroutine for each connection.
// It also serves connections of package stream.
type tcpServer struct {
	net.Listener
	spec *spec
}

func serveTCP(s *spec) (server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return newTCPServer(s, l), nil
}

func newTCPServer(s *spec, l net.Listener) *tcpServer {
	t := &tcpServer{l, s}
	go t.accept()
	return t
}

// Addr returns the address of the listener.
func (t *tcpServer) Addr() string { return t.Listener.Addr().String() }

func (t *tcpServer) accept() {
	for {
		c, err := t.Accept()
		if err != nil {
			return // The listener is closed.
		}
		go t.answer(c)
	}
}

func (t *tcpServer) answer(c net.Conn) {
	defer c.Close()
	message := make([]byte, t.spec.Size)
	for {
		for range t.spec.group() {
			if _, err := io.ReadFull(c, message); err != nil {
				return // The client has closed the connection.
			}
		}
		if _, err := c.Write(message[:t.spec.answer()]); err != nil {
			return
		}
	}
}

func connectTCP(s *spec) (client, error) {
	return newTCPClient(s, net.Dial), nil
}

// newTCPClient returns a client whose connections come from the function dial.
func newTCPClient(s *spec, dial func(network, address string) (net.Conn, error)) client {
	b := newBlockingClient(s)
	b.connect = func() (caller, error) {
		c, err := dial("tcp", s.Server)
		if err != nil {
			return nil, err
		}
		return &tcpCaller{c, make([]byte, s.Size)}, nil
	}
	b.closeConn = func(c caller) error {
		conn := c.(*tcpCaller).conn
		if tcp, ok := conn.(*net.TCPConn); ok { // A reset frees the local port at once.
			return errors.Join(tcp.SetLinger(0), tcp.Close())
		}
		return conn.Close()
	}
	if s.Workload == workStream {
		return &tcpStream{b, 0}
	}
	return b
}

// A tcpCaller is a connection of the client.
type tcpCaller struct {
	conn    net.Conn
	message []byte
}

func (t *tcpCaller) roundTrip(n uint64) error {
	putNumber(t.message, n)
	if _, err := t.conn.Write(t.message); err != nil {
		return err
	}
	if _, err := io.ReadFull(t.conn, t.message); err != nil {
		return err
	}
	return checkNumber(t.message, n)
}

func checkNumber(answer []byte, want uint64) error {
	if got := number(answer); got != want {
		return fmt.Errorf("the server returned message %d instead of %d", got, want)
	}
	return nil
}

// A tcpStream runs workStream. One goroutine writes messages, and another goroutine
// reads the answers.
type tcpStream struct {
	*blockingClient
	sent uint64
}

func (t *tcpStream) drive(period time.Duration, counted *tally) error {
	c := t.callers[0].(*tcpCaller)
	group := t.spec.group()
	tokens := make(chan struct{}, t.spec.InFlight/group)
	for range cap(tokens) {
		tokens <- struct{}{}
	}
	begin := t.clock.now()
	failed := make(chan error, 1)
	// The channel tells readAnswers the number of the last message of each group.
	groups := make(chan uint64, cap(tokens))
	go func() { failed <- t.readAnswers(c.conn, groups, tokens) }()
	for first := true; first || t.clock.now() < begin+period; first = false {
		select {
		case <-tokens:
		case err := <-failed:
			return err
		}
		for range group {
			t.sent++
			putNumber(c.message, t.sent)
			if _, err := c.conn.Write(c.message); err != nil {
				return err
			}
		}
		counted.Msgs += uint64(group)
		groups <- t.sent
	}
	close(groups)
	err := <-failed
	counted.Elapsed = t.clock.now() - begin
	return err
}

func (t *tcpStream) readAnswers(c net.Conn, groups <-chan uint64, tokens chan<- struct{}) error {
	answer := make([]byte, t.spec.answer())
	for want := range groups {
		if _, err := io.ReadFull(c, answer); err != nil {
			return err
		}
		if err := checkNumber(answer, want); err != nil {
			return err
		}
		// The channel has room for all tokens, so this never blocks.
		tokens <- struct{}{}
	}
	return nil
}
