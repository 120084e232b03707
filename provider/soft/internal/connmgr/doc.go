// Package connmgr implements connection management for a soft device. A Manager
// implements cm.Transport. It opens event channels. The IDs of a channel connect, listen
// and look up UD services.
//
// # Engine
//
// The package does not move data. The device does that, and implements the interface
// Engine for this package. Each connection has a Binding, which tells the engine how the
// queue pair reaches its peer: through shared memory, or with packets.
//
// # Channels
//
// The package starts no goroutines. All work is done in calls of the application. Next
// reads the sockets of its channel, runs the jobs in the inbox of the channel, and calls
// the timers that are due. A channel queues a job in the inbox of another channel when it
// receives a message for an ID there. The lock of a channel guards its IDs.
//
// # IDs and paths
//
// An id is the state machine of a connection. It exchanges messages with the peer
// through the interface cmConn. A listening id receives requests through the interface
// listener. Each interface has an implementation for each path:
//
//   - On the local path, unixConn and unixListener use Unix sockets (unix_*.go). A
//     message is one packet of a socket. The kernel reports the user of the peer, and
//     closes the socket when the peer's process ends.
//   - On the wire path, madConn and madListener use the management datagrams of the
//     InfiniBand specification (mad_*.go). Datagrams may be lost, duplicated, reordered
//     or forged. The madMux of the manager passes received datagrams to connections and
//     listeners. A madConn retransmits messages and drops duplicates, so an id gets each
//     message once.
//
// # Files
//
// The files of this package, in reading order:
//
//	queue.go             events that the application has not fetched
//	inbox.go             jobs that other channels queue for a channel
//	engine.go            Engine, Binding and QueuePair
//	manager.go           Manager
//	channel.go           event channels
//	message.go           messages, cmConn and listener
//	id.go                state machine of an ID, events about it
//	negotiation.go       parameters that both sides agree on
//	timers.go            ACK timeouts
//	qp.go                queue pair of an ID
//	lookup.go            lookups of UD services
//	active.go            side that sends the request
//	passive.go           side that receives the request
//	disconnect.go        disconnecting
//	unix_codec.go        local path: packets of messages
//	unix_admission.go    clients that are admitted
//	unix_conn.go         connections
//	unix_dial.go         search for the listener
//	unix_listener.go     listeners
//	unix_source.go       checks of the addresses in a request
//	mad_codec.go         wire path: datagrams of messages
//	mad_halfopen.go      half-open connections of a listener
//	mad_sources.go       connections of each source
//	mad_answer_limit.go  rate of the answers to unknown peers
//	mad_port.go          UDP ports
//	mad_mux.go           distribution of received datagrams
//	mad_job_target.go    receivers of jobs
//	mad_icmp.go          sockets for requests, and their ICMP errors
//	mad_refused.go       refused requests
//	mad_retransmit.go    retransmission
//	mad_conn.go          connections
//	mad_validation.go    validation of a peer's address
//	mad_mtu.go           negotiation of the path MTU
//	mad_handle.go        received datagrams of a connection
//	address_watch.go     changes of the host's addresses
//	mad_listener.go      listeners
//	mad_addrs.go         addresses of a listener
//	mad_request.go       received requests
//	path_names.go        names of the paths
//	path.go              choice of the path
//	resolve.go           options, addresses and routes
//	migrate.go           moving an ID to another channel
package connmgr
