// Package connmgr implements connection management for a soft device. A Manager is a
// cm.Transport. It makes event channels, whose IDs connect, listen and look up UD
// services.
//
// # Engine
//
// The package has no queue pairs and moves no data. Engine is what it needs of the device
// that does. For each connection it adds a Binding to the engine, which says how the
// queue pair reaches its peer: through shared memory, or through packets. It moves the
// queue pair of an ID through its states by verbs.QP.
//
// # Channels
//
// A channel is an event channel, and has the lock of its IDs. All work is done by calls
// of the application: Next reads the sockets of the channel, runs the jobs that other
// channels have queued for it (inbox), and calls its timers.
//
// # IDs and paths
//
// An id is the state machine of a connection. It exchanges messages with the peer through
// the interface cmConn, and a listening id receives requests through the interface
// listener. Each has an implementation for each path:
//
//   - On the local path, unixConn and unixListener use Unix sockets (unix_*.go). A
//     message is one packet of a socket. The kernel reports the user of the peer, and
//     closes the socket when the peer's process ends.
//   - On the wire path, madConn and madListener use the management datagrams of the
//     InfiniBand specification (mad_*.go), which may be lost, duplicated, reordered or
//     forged. The madMux of the manager passes received datagrams to connections and
//     listeners. A madConn retransmits messages, so that an id gets each message once.
package connmgr
