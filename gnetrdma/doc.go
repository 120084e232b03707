// Package gnetrdma serves handlers of gnet (github.com/panjf2000/gnet/v2) over RDMA. A
// program that calls gnet.Run calls Run of this package instead, with an address such as
// "rdma://:7471". The gnet.EventHandler stays as it is. With addresses such as
// "tcp://:9000" beside it, one handler serves both.
//
// The connections are streams of package stream, so the peers are programs that use
// package stream, Client of this package, or rsocket(7).
//
// # What differs from gnet
//
//   - Deadlines work as those of package net. EventLoop.Schedule works.
//   - A connection has no descriptor. Fd returns -1. Dup, SetReadBuffer, SetWriteBuffer,
//     SetLinger, SetKeepAlive, SetKeepAlivePeriod and SetNoDelay(false) return
//     errors.ErrUnsupportedOp of gnet. Small messages are never delayed.
//   - The network of LocalAddr and RemoteAddr is "rdma", and their type is stream.Addr.
//   - The output that waits for the peer is bounded: see Config.MaxOutbound. So are the
//     bytes that the handler does not read: see Config.MaxInbound.
//   - Bytes that were written before a Close are sent after OnClose, as long as the peer
//     reads them within reactor.Config.Limits.DrainTimeout.
//   - gnet.Engine knows only its own connections: see CountConnections. Engine.Dup
//     returns a descriptor of a listener of gnet, never of RDMA.
//   - Two engines can not listen at one RDMA address. WithReusePort and the other options
//     of sockets apply to the addresses of gnet only.
//   - Enroll returns errors.ErrUnsupportedOp of gnet.
//   - gnet needs a listener of its own. With addresses of RDMA only, that is a Unix
//     socket in a new directory below os.TempDir, or a port for UDP of 127.0.0.1 if the
//     socket can not be made there. The handler gets nothing from either.
//
// Callbacks of one connection run on the goroutine of its event loop, as in gnet. With
// several loops, or with addresses of gnet beside RDMA, callbacks of different
// connections run at the same time.
package gnetrdma
