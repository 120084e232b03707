//go:build linux

package hostile

// Roles of attackers on the local path.
const (
	// RoleSquatter binds the name of Addr in the abstract namespace and listens on it.
	// Clients look for a server on the exact address first, then on the wildcard.
	RoleSquatter Role = "name squatting"
	// RoleSpoofer sends requests with a source address that it does not have.
	RoleSpoofer Role = "address spoofing"
	// RoleMalformed sends malformed packets to the listener.
	RoleMalformed Role = "malformed packets"
	// RoleExhauster opens as many connections as the server accepts, and keeps them open.
	RoleExhauster Role = "connection exhaustion"
	// RoleCorrupter is a client that writes random bytes into all memory that it
	// shares with the server.
	RoleCorrupter Role = "shared memory corruption"
)

// Roles of attackers on the wire path. They send from the address Spec.From.
const (
	// RoleFlood sends connection requests from many addresses, Spec.Sources of them
	// beginning with From, and never answers the replies.
	RoleFlood Role = "request flood"
	// RoleInvalid sends invalid packets: random bytes, damaged packets and random messages.
	RoleInvalid Role = "invalid packets"
	// RoleIdler opens connections from one address, and keeps them open without
	// sending anything.
	RoleIdler Role = "idle connections"
	// RoleHalves opens Conns connections, and sends half of a message on each.
	RoleHalves Role = "half messages"
	// RoleViolator opens connections, and sends packets on them that violate the
	// protocol.
	RoleViolator Role = "protocol violation"
	// RoleInjector opens one valid connection, and sends messages from another address
	// that could end it.
	RoleInjector Role = "injection"
	// RoleWrongReplies answers connection requests to From with wrong replies.
	RoleWrongReplies Role = "wrong replies"
)

// attacks maps each role to its attack. The map is constant.
var attacks = map[Role]attack{
	RoleSquatter:  squat,
	RoleSpoofer:   spoof,
	RoleMalformed: sendMalformed,
	RoleExhauster: exhaust,
	RoleCorrupter: corruptMemory,
	RoleFlood:     flood,
	RoleInvalid:   sendInvalidPackets,
	RoleIdler:     holdConnections,
	RoleHalves:    sendHalves,
	RoleViolator:  violateProtocol,
	RoleInjector:  inject,

	RoleWrongReplies: sendWrongReplies,
}
