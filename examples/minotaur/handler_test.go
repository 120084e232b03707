package minotaur_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	minotaur "github.com/kercylan98/minotaur/engine/stream"
	"github.com/kercylan98/minotaur/engine/vivid"
	"github.com/kercylan98/minotaur/toolkit/log"
	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma"
	"github.com/rdmaloop/rdmaloop/internal/testutil/freeport"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// TestHandler runs the handler on both paths of the software device.
func TestHandler(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		testHandler(t, soft.Config{Path: soft.PathLocal}, netip.Addr{})
	})
	t.Run("wire", func(t *testing.T) {
		testHandler(t, soft.Config{Path: soft.PathWire, WirePort: freeport.UDP(t)}, netip.MustParseAddr("127.0.0.2"))
	})
}

const loops = 2

// A server tells the test when the engine runs. The rest is the handler of minotaur.
type server struct {
	*minotaur.GNETEventHandler
	booted chan gnet.Engine
}

func (s *server) OnBoot(e gnet.Engine) gnet.Action {
	action := s.GNETEventHandler.OnBoot(e)
	s.booted <- e
	return action
}

// testHandler serves the handler with two loops, and has connections that the server
// closes, one that the client closes, and one that is open when the server stops.
func testHandler(t *testing.T, device soft.Config, clientAddr netip.Addr) {
	open := func() *soft.Provider {
		p, err := soft.Open(&device)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	network, err := stream.New(open(), &stream.NetworkConfig{LocalAddr: clientAddr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, network.Close()) })
	ln, err := network.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String() // No other program uses it now.
	require.NoError(t, ln.Close())

	system := vivid.NewActorSystem(vivid.FunctionalActorSystemConfigurator(func(c *vivid.ActorSystemConfiguration) {
		c.WithLoggerProvider(log.FunctionalLoggerProvider(func() *log.Logger { return slog.New(slog.DiscardHandler) }))
	}))
	ended := make(chan struct{}, loops+2)
	s := &server{
		GNETEventHandler: minotaur.NewGNETEventHandler(system, minotaur.FunctionalConfigurator(func(c *minotaur.Configuration) {
			c.WithPerformance(shout(ended))
		})),
		booted: make(chan gnet.Engine, 1),
	}
	result := make(chan error, 1)
	go func() {
		cfg := &gnetrdma.Config{Provider: open()}
		result <- cfg.Run(s, "rdma://"+addr, gnet.WithNumEventLoop(loops))
	}()
	var engine gnet.Engine
	select {
	case engine = <-s.booted:
	case err := <-result:
		require.NoError(t, err)
	}

	dial := func() net.Conn {
		c, err := network.Dial("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, expect(c, greeting))
		return c
	}
	// The handler passes the slice of Next to an actor, although it is only valid in
	// OnTraffic: in gnet, too, the next read of the loop overwrites it. So each loop has one
	// connection, and messages are small enough that one read gets all of a message.
	asked := make(chan error, loops)
	for range loops {
		c := dial()
		go func() { asked <- ask(c) }()
	}
	for range loops {
		require.NoError(t, <-asked)
		<-ended
	}

	require.NoError(t, dial().Close())
	<-ended

	c := dial()
	require.NoError(t, engine.Stop(context.Background()))
	require.NoError(t, <-result)
	require.NoError(t, expectEnd(c))
	<-ended
	system.Shutdown(true)
}

const (
	greeting = "hello"
	quit     = "quit"
)

// shout makes an actor for one connection. It writes a greeting, because the handler may
// deliver input before the actor has its Writer. It answers in capitals and ends when it
// gets quit. Then, and when the connection has ended, it sends to ended.
func shout(ended chan<- struct{}) vivid.FunctionalActorPerformance {
	var writer minotaur.Writer
	return func(ctx vivid.ActorContext) {
		switch m := ctx.Message().(type) {
		case minotaur.Writer:
			writer = m
			ctx.Tell(writer, minotaur.NewPacketS(greeting))
		case *minotaur.Packet:
			if string(m.Data()) == quit {
				ctx.Terminate(ctx.Ref(), true)
				return
			}
			ctx.Tell(writer, minotaur.NewPacketD(bytes.ToUpper(m.Data())))
		case *vivid.OnTerminate:
			ended <- struct{}{}
		}
	}
}

// ask sends messages of up to 1 KiB and compares the answers, and makes the server close
// the connection.
func ask(c net.Conn) error {
	for n := range 100 {
		m := bytes.Repeat([]byte{'a' + byte(n%26)}, 1+10*n)
		if _, err := c.Write(m); err != nil {
			return err
		}
		if err := expect(c, string(bytes.ToUpper(m))); err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
	}
	if _, err := io.WriteString(c, quit); err != nil {
		return err
	}
	return expectEnd(c)
}

// expect reads as many bytes as want has, and compares them.
func expect(c net.Conn, want string) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

// expectEnd waits for the end of the stream, and closes the connection.
func expectEnd(c net.Conn) error {
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("read %d bytes, error %v; want the end of the stream", n, err)
	}
	return c.Close()
}
