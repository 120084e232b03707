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
// method Next of a channel reads its sockets, lets the wire path do the work that other
// channels have received for it (Worker), and runs the timers that are due. The lock of a
// channel guards its IDs.
//
// # IDs and paths
//
// An ID is the state machine of one side of a connection. It exchanges messages with the
// peer through the interface Conn. A listening ID receives requests through the interface
// Listener. Each path has a Transport, which makes them: package unixcm for the local
// path, and package madcm for the wire path. Both packages import this one, and neither
// knows the other.
package connmgr

// Names of the paths in cm.ServedAddr and in the configuration.
const (
	LocalPath = "local"
	WirePath  = "wire"
)
