//go:build linux

package hostile

// Roles of processes that attack the local path.
const (
	// RoleSquatter binds the socket name of Spec.Addr. The server has the wildcard
	// address. Clients try the name of Spec.Addr first, so they find the attacker.
	RoleSquatter Role = "name squatting"
	// RoleSpoofer sends requests with a false source address.
	RoleSpoofer Role = "address spoofing"
	// RoleMalformed sends malformed packets to the listener.
	RoleMalformed Role = "malformed packets"
	// RoleExhauster opens as many connections as the server accepts, and keeps them open.
	RoleExhauster Role = "connection exhaustion"
	// RoleSilent connects again and again, as fast as possible, and sends nothing.
	RoleSilent Role = "silent sockets"
	// RoleCorrupter is a client that writes random bytes into all memory shared with the
	// server.
	RoleCorrupter Role = "shared memory corruption"
	// RoleSharer asks for memory regions and consumes no answers. Each of its connections
	// states a loop that does not exist.
	RoleSharer Role = "share flood"
	// RoleSparse sends long messages from memory regions of up to 64 TiB without pages.
	RoleSparse Role = "sparse regions"
	// RolePuncher removes the pages of memory regions that the server reads, and tries to
	// truncate them.
	RolePuncher Role = "hole punching"
	// RoleLocalHalves sends only the first byte of a message on each of Spec.Conns
	// connections.
	RoleLocalHalves Role = "local half messages"
	// RoleForbidder is a client that opens connections and sends a request on each that the
	// server does not allow.
	RoleForbidder Role = "forbidden requests"
	// RoleNonReader opens streams, writes to them and never reads.
	RoleNonReader Role = "streams that are not read"
)

// RoleHanging announces a long message on each of Spec.Conns connections, and then blocks
// its loop. It attacks the path of the Spec.
const RoleHanging Role = "hanging loop"

// Roles of processes that attack the wire path from the address Spec.From.
const (
	// RoleFlood sends connection requests from many addresses and answers no replies. It
	// uses Spec.Sources consecutive addresses, and the first is Spec.From.
	RoleFlood Role = "request flood"
	// RoleInvalid sends random bytes, damaged packets and messages with random contents.
	RoleInvalid Role = "invalid packets"
	// RoleIdler opens connections from one address and sends nothing on them.
	RoleIdler Role = "idle connections"
	// RoleHalves sends only the first half of a message on each of Spec.Conns
	// connections.
	RoleHalves Role = "half messages"
	// RoleViolator sends packets on its connections that violate the protocol.
	RoleViolator Role = "protocol violation"
	// RoleInjector opens one valid connection. From another address, it sends messages
	// that would end the connection if they came from the right address.
	RoleInjector Role = "injection"
	// RoleWrongReplies answers connection requests at Spec.From with wrong replies.
	RoleWrongReplies Role = "wrong replies"
)

// Roles of processes that attack a server with long messages.
const (
	// RoleLongViolator violates the protocol for long messages, differently in each round.
	RoleLongViolator Role = "long message violation"
	// RoleLongHolder announces a long message on each of Spec.Conns connections of the wire
	// path, and delays the READs of the server.
	RoleLongHolder Role = "held long messages"
)

// Roles of processes that attack a stream server.
const (
	// RoleStreamHalfOpen requests streams and does not confirm the replies.
	RoleStreamHalfOpen Role = "half-open streams"
	// RoleStreamSilent opens Spec.Conns streams and sends nothing.
	RoleStreamSilent Role = "silent streams"
	// RoleStreamViolator violates the protocol of streams, differently in each round.
	RoleStreamViolator Role = "stream violation"
)

// Roles of hosts that attack an NVMe target.
const (
	// RoleBusyHost has as many of the largest commands in flight as possible, on Spec.Conns
	// queues, until it is killed or stopped.
	RoleBusyHost Role = "busy NVMe host"
	// RoleHostileHost violates the protocol, differently in each round.
	RoleHostileHost Role = "hostile NVMe host"
)

// attacks has the attack of each role. It is never changed.
var attacks = map[Role]attack{
	RoleSquatter:    squat,
	RoleSpoofer:     spoof,
	RoleMalformed:   sendMalformed,
	RoleExhauster:   exhaust,
	RoleCorrupter:   corruptMemory,
	RoleSharer:      shareWithoutEnd,
	RoleSparse:      offerSparse,
	RolePuncher:     punchHoles,
	RoleFlood:       flood,
	RoleInvalid:     sendInvalidPackets,
	RoleIdler:       holdConnections,
	RoleHalves:      sendHalves,
	RoleViolator:    violateProtocol,
	RoleInjector:    inject,
	RoleLocalHalves: sendLocalHalves,
	RoleForbidder:   sendForbidden,
	RoleNonReader:   sendUnread,
	RoleSilent:      connectSilently,

	RoleWrongReplies:   sendWrongReplies,
	RoleHanging:        hang,
	RoleLongViolator:   violateLong,
	RoleLongHolder:     holdLong,
	RoleBusyHost:       transferForever,
	RoleHostileHost:    violateNVMe,
	RoleStreamHalfOpen: halfOpenStreams,
	RoleStreamSilent:   silentStreams,
	RoleStreamViolator: violateStreams,
}
