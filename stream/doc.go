// Package stream has byte streams over RDMA connections. A stream carries bytes in both
// directions, in order and without message boundaries, like TCP. The two sides speak the
// protocol of rsocket(7), which is a part of librdmacm, so the peer may be a C program.
//
// Each side has a ring of memory, and the peer writes the bytes of the stream into the
// ring by RDMA WRITEs. So the receiver has memory for all bytes that the peer sends, and
// the reader gets the bytes without a further copy.
//
// A program uses streams in one of two ways:
//
//	Listen, Dial    A Handler gets the callbacks of streams, on the loops of a
//	                reactor.Engine. Callbacks do not block.
//	Network         Connections are a net.Conn, and listeners are a net.Listener. Calls
//	                block, and any goroutine may use them.
//
// # Shutting down
//
// When the engine shuts down (reactor.Engine.Shutdown), it closes its streams: the peers get
// all bytes that were written, and the end of the stream. A Handler that has more to write
// first has a method OnStop. Network.Close closes the connections in the same way.
//
// # Limits
//
// The connection manager gives a program 56 bytes of private data in a connection
// request, and 196 bytes in the reply. The protocol takes the first 40 bytes of both.
package stream

// How the package is built, for those who change it.
//
// What an application calls comes first: open.go (Listen, Dial and their options) and
// handler.go. A Stream is one connection of package reactor: stream.go has its memory
// and its two directions, end.go how they end. What does not need a connection is in
// internal/rsocket: the Hello in the private data, the Message in an immediate, the
// Receiver and the Sender.
//
// network.go and listener.go do the same for package net. A Network has one loop, which
// the goroutines that wait run in turn: see internal/turns. A Conn is a Stream of a
// Network as a net.Conn: conn.go has the calls that block, and wait.go how they wait.
