//go:build linux

package hostile

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
)

// GnetMaxOutbound is gnetrdma.Config.MaxOutbound of RoleGnetServer.
const GnetMaxOutbound = 4 << 20

// A gnetServer is an echo server on package gnetrdma, at Spec.Addr.
type gnetServer struct {
	gnet.BuiltinEventEngine
	engine gnet.Engine
	conns  atomic.Int64 // open connections
	booted *event
	ended  chan error
}

func (s *gnetServer) start(spec *Spec) (Note, error) {
	s.booted, s.ended = newEvent(), make(chan error, 1)
	cfg := &gnetrdma.Config{MaxOutbound: GnetMaxOutbound}
	// Without a path, gnet would log to the standard output, on which the Notes are.
	go func() { s.ended <- cfg.Run(s, "rdma://"+spec.Addr.String(), gnet.WithLogPath(os.DevNull)) }()
	select {
	case <-s.booted.done:
		return Note{Addr: spec.Addr}, nil
	case err := <-s.ended:
		return Note{}, err
	}
}

func (s *gnetServer) report() Note {
	return Note{Server: ServerState{Conns: uint64(s.conns.Load()), Goroutines: runtime.NumGoroutine()}}
}

func (s *gnetServer) await() {}

func (s *gnetServer) finish() (Note, error) {
	note := s.report()
	_ = s.engine.Stop(context.Background()) // The result of Run is more important.
	return note, <-s.ended
}

// OnBoot stores the engine.
func (s *gnetServer) OnBoot(e gnet.Engine) gnet.Action {
	s.engine = e
	s.booted.happen()
	return gnet.None
}

// OnOpen counts the connection.
func (s *gnetServer) OnOpen(gnet.Conn) ([]byte, gnet.Action) {
	s.conns.Add(1)
	return nil, gnet.None
}

// OnClose undoes OnOpen.
func (s *gnetServer) OnClose(gnet.Conn, error) gnet.Action {
	s.conns.Add(-1)
	return gnet.None
}

// OnTraffic sends back what has arrived.
func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b) // After an error the connection is closed, or OnClose follows.
	return gnet.None
}
