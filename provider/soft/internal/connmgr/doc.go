// Package connmgr implements connection management for a soft device. A Manager
// implements cm.Transport. It opens event channels. With the IDs of a channel, an
// application connects, listens, and sends SIDR requests to find the queue pairs of UD
// services.
//
// # Engine
//
// The package does not transfer the data of connections. The device does that: it
// implements the interface Engine. Each connection has a Binding, which tells the engine
// how the queue pair reaches its peer: through shared memory or with packets.
//
// # Channels
//
// The package starts no goroutines. All work is done in calls of the application. The
// method Next of a channel reads its sockets, runs the jobs in its inbox, and runs the
// timers that are due. If a channel receives a message for an ID of another channel, it
// queues a job in the inbox of the other channel. The lock of a channel guards its IDs.
//
// # IDs and paths
//
// An ID is the state machine of one side of a connection. It exchanges messages with the
// peer through the interface Conn. A listening ID receives requests through the
// interface listener. Each path has its own implementation of the two interfaces:
//
//   - On the local path, unixConn and unixListener use Unix sockets (unix_*.go). A
//     message is one packet of a socket. The kernel reports the user of the peer, and
//     closes the socket when the peer's process ends.
//   - On the wire path, madConn and madListener use the management datagrams of the
//     InfiniBand specification (mad_*.go). Datagrams may be lost, duplicated, reordered
//     or forged. The madMux of the manager passes received datagrams to connections and
//     listeners. A madConn retransmits messages and drops duplicates, so an ID gets each
//     message once.
package connmgr
