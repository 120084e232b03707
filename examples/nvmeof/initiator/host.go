// Package initiator is a small NVMe over Fabrics host on RDMA. The demonstration and the
// tests of the target use it. It has no recovery: when a connection ends, its requests
// fail.
package initiator

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Host connects to targets. Any goroutine may call its methods.
type Host struct {
	reactor.BaseHandler
	engine *reactor.Engine
	cfg    Config
}

// Config configures a host.
type Config struct {
	// NQN and ID identify the host to targets.
	NQN string
	ID  [16]byte
	// From is the local address of connections. The zero value means that the provider
	// chooses it.
	From netip.Addr
	// Reactor configures the engine. Its MaxMessage limits the data in a capsule.
	Reactor reactor.Config
}

// NewHost returns a host that uses a provider.
func NewHost(p cm.Provider, cfg *Config) (*Host, error) {
	h := &Host{cfg: *cfg}
	var err error
	if h.engine, err = reactor.New(p, h, &h.cfg.Reactor); err != nil {
		return nil, err
	}
	return h, h.engine.Start()
}

// Alloc allocates memory for the data of requests, which targets may read and write.
// Request.Show can use the memory too.
func (h *Host) Alloc(n int) (*reactor.Region, error) {
	return h.engine.Alloc(n, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite|verbs.AccessMWBind)
}

// Close closes all connections and waits for their end.
func (h *Host) Close() error { return h.engine.Shutdown(context.Background()) }

// ErrEnded is the error of requests whose connection has ended without another cause.
var ErrEnded = errors.New("initiator: the connection has ended")

// Dial opens the connection of a queue. The parameter size is the number of places of the
// queue. Queue 0 is the admin queue. Dial does not send the Connect command.
func (h *Host) Dial(ctx context.Context, addr netip.AddrPort, id uint16, size int) (*Queue, error) {
	r := nvme.QueueRequest{QID: id, RecvSize: uint16(size), SendSizeM1: uint16(size - 1)}
	private, _ := r.AppendBinary(nil)
	return h.DialPrivate(ctx, addr, id, size, private)
}

// DialPrivate is Dial with other private data.
func (h *Host) DialPrivate(ctx context.Context, addr netip.AddrPort, id uint16, size int, private []byte) (*Queue, error) {
	q := newQueue(h, id, size)
	o := &reactor.DialOptions{PrivateData: private, UserData: q}
	if h.cfg.From.IsValid() {
		o.LocalAddr = netip.AddrPortFrom(h.cfg.From, 0)
	}
	if err := h.engine.Dial(addr, o); err != nil {
		return nil, err
	}
	select {
	case err := <-q.opened:
		if err != nil {
			return nil, err
		}
		return q, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// OnOpen implements reactor.Handler.
func (h *Host) OnOpen(c *reactor.Conn) { c.UserData.(*Queue).open(c) }

// OnDialError implements reactor.Handler.
func (h *Host) OnDialError(_ *reactor.Loop, _ netip.AddrPort, o *reactor.DialOptions, err error) {
	o.UserData.(*Queue).opened <- err
}

// OnMessage implements reactor.Handler.
func (h *Host) OnMessage(c *reactor.Conn, msg reactor.Message) {
	c.UserData.(*Queue).receive(msg)
}

// OnWritable implements reactor.Handler.
func (h *Host) OnWritable(c *reactor.Conn) { c.UserData.(*Queue).writable() }

// OnClose implements reactor.Handler.
func (h *Host) OnClose(c *reactor.Conn, err error) { c.UserData.(*Queue).end(err) }
