package stream

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Dial is DialContext without a context.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	return n.DialContext(context.Background(), network, address)
}

// DialContext opens a stream to an address, such as "192.0.2.1:7471" or "host:7471". The
// network is "tcp", "tcp4", "tcp6" or "rdma", so that DialContext can be used in place of
// net.Dialer.DialContext. If a name has several addresses, they are tried in turn. The
// error is a *net.OpError.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return nil, opError("dial", nil, nil, err)
	}
	for _, addr := range addrs {
		var c *Conn
		if c, err = n.dial(ctx, addr); err == nil {
			return c, nil
		}
		err = opError("dial", nil, Addr{addr}, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// dial opens a stream to one address.
func (n *Network) dial(ctx context.Context, addr netip.AddrPort) (*Conn, error) {
	if addr.Addr().IsUnspecified() {
		addr = netip.AddrPortFrom(loopbackLike(addr.Addr()), addr.Port()) // as package net does
	}
	n.loop.Lock()
	defer n.loop.Unlock()
	c := newConn(n)
	o := &DialOptions{Buffers: n.cfg.Buffers, Context: c}
	if end, ok := ctx.Deadline(); ok {
		// When Dial returns early, the connection attempt must not go on for long.
		o.Timeout = max(time.Until(end), time.Millisecond)
	}
	if n.cfg.LocalAddr.IsValid() {
		o.LocalAddr = netip.AddrPortFrom(n.cfg.LocalAddr, 0)
	}
	if err := Dial(n.loop.Reactor().Engine(), addr, callbacks{}, o); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() {
		n.loop.Lock()
		defer n.loop.Unlock()
		n.loop.Recheck(c.opened)
	})()
	if !n.loop.Sleep(c.opened, ctx.Done()) {
		c.cancel()
		return nil, ctx.Err()
	}
	if c.state == connFailed {
		return nil, c.endError
	}
	return c, nil // The peer may have closed the connection already.
}

// loopbackLike returns the loopback address of the family of ip.
func loopbackLike(ip netip.Addr) netip.Addr {
	if ip.Is4() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}
