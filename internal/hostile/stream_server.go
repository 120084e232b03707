//go:build linux

package hostile

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream"
)

// A streamNode is a device and a Network.
type streamNode struct {
	device  *soft.Provider
	network *stream.Network
}

// open opens the device and the network with the settings of the spec.
func (n *streamNode) open(s *Spec) (err error) {
	settings := &soft.Config{
		Path: s.Path, MaxConnsPerAddress: s.MaxConnsPerAddress, MaxConnsPerUser: s.MaxConnsPerUser,
	}
	if s.AnyUser {
		settings.AllowedUsers = []uint32{soft.AnyUser}
	}
	if n.device, err = soft.Open(settings); err != nil {
		return err
	}
	n.network, err = stream.New(n.device, &stream.NetworkConfig{
		LocalAddr: s.From, Backlog: s.Backlog, SpinBudget: -1,
		Reactor: reactor.Config{MaxConns: s.MaxConns, Transport: reactor.Transport{Keepalive: s.Keepalive, AckTimeout: s.AckTimeout}, Limits: reactor.Limits{ConnectTimeout: s.ConnectTimeout, DrainTimeout: s.DrainTimeout}},
	})
	return err
}

func (n *streamNode) close() error { return errors.Join(n.network.Close(), n.device.Close()) }

// A streamServer sends all bytes of its streams back.
type streamServer struct {
	streamNode
	listener net.Listener
	echoes   sync.WaitGroup // goroutines of the connections
	closed   kinds
}

func (s *streamServer) start(spec *Spec) (note Note, err error) {
	if err = s.open(spec); err != nil {
		return note, err
	}
	if s.listener, err = s.network.Listen("tcp", spec.Addr.String()); err != nil {
		return note, err
	}
	s.echoes.Go(s.accept)
	return Note{Addr: s.listener.Addr().(stream.Addr).AddrPort}, nil
}

// accept accepts connections until the listener is closed.
func (s *streamServer) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.echoes.Go(func() {
			_, err := io.Copy(c, c)
			s.closed.count(err)
			_ = c.Close() // The peer may have ended the connection.
		})
	}
}

func (s *streamServer) report() Note {
	stats := s.network.Engine().Stats()
	return Note{Server: ServerState{
		Conns: stats.Conns, Opened: stats.Opened, Requests: stats.Requests, Goroutines: runtime.NumGoroutine(),
		Longest: stats.LongestTurn, Closed: s.closed.copy(),
	}}
}

func (s *streamServer) await() {}

func (s *streamServer) finish() (Note, error) {
	note := s.report()
	err := errors.Join(s.listener.Close(), s.close())
	s.echoes.Wait()
	return note, err
}
