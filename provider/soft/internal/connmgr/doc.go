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
// An id is the state machine of one side of a connection. It exchanges messages with the
// peer through the interface cmConn. A listening id receives requests through the
// interface listener. Each path has its own implementation of the two interfaces:
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
//	busy_heap.go         heap of sources, the busiest first
//	request_queue.go     jobs for requests, taken from each source in turn
//	engine.go            Engine, Binding and QueuePair
//	manager.go           Manager
//	channel.go           event channels
//	message.go           messages, cmConn and listener
//	id.go                state machine of an ID, events about it
//	negotiation.go       parameters that both sides agree on
//	timers.go            ACK timeouts
//	qp.go                queue pair of an ID
//	lookup.go            SIDR requests
//	active.go            the side that sends the request
//	passive.go           the side that receives the request
//	disconnect.go        disconnecting
//	unix_codec.go        local path: packets of messages
//	unix_admission.go    permissions of clients to connect
//	unix_conn.go         connections
//	unix_dial.go         search for the listener
//	unix_listener.go     listeners
//	unix_source.go       checks of the addresses in a request
//	mad_codec.go         wire path: datagrams of messages
//	mad_halfopen.go      half-open connections of a listener
//	mad_sources.go       counts of the connections of each source
//	mad_proven.go        sources whose address was validated before
//	mad_answer_limit.go  rate of the answers to unknown peers
//	mad_port.go          UDP ports
//	mad_mux.go           distribution of received datagrams
//	mad_unread.go        requests that are dropped unread
//	port_users.go        UDP ports that a channel watches
//	mad_job_target.go    queueing of jobs
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
