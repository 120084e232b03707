//go:build linux

package hostile

// Roles of processes that attack the local path.
const (
	// RoleSquatter binds the socket name of Spec.Addr in the abstract namespace and
	// listens on it. Clients look for a server at the exact address first, and so find
	// the attacker. A server that listens on the wildcard address has another name.
	RoleSquatter Role = "name squatting"
	// RoleSpoofer sends requests with a false source address.
	RoleSpoofer Role = "address spoofing"
	// RoleMalformed sends malformed packets to the listener.
	RoleMalformed Role = "malformed packets"
	// RoleExhauster opens as many connections as the server accepts, and keeps them open.
	RoleExhauster Role = "connection exhaustion"
	// RoleCorrupter is a client that writes random bytes into all memory that it
	// shares with the server.
	RoleCorrupter Role = "shared memory corruption"
)

// Roles of processes that attack the wire path. They send packets from the address
// Spec.From.
const (
	// RoleFlood sends connection requests from Spec.Sources consecutive addresses,
	// beginning with Spec.From. It never answers the replies.
	RoleFlood Role = "request flood"
	// RoleInvalid sends invalid packets: random bytes, damaged packets and messages with
	// random contents.
	RoleInvalid Role = "invalid packets"
	// RoleIdler opens connections from one address, and keeps them open without
	// sending anything.
	RoleIdler Role = "idle connections"
	// RoleHalves opens Spec.Conns connections, and sends the first half of a message on
	// each.
	RoleHalves Role = "half messages"
	// RoleViolator opens connections, and sends packets that violate the protocol on
	// them.
	RoleViolator Role = "protocol violation"
	// RoleInjector opens one valid connection. From another address it sends messages
	// that would end the connection if they came from the address of the connection.
	RoleInjector Role = "injection"
	// RoleWrongReplies answers connection requests that arrive at Spec.From with wrong
	// replies.
	RoleWrongReplies Role = "wrong replies"
)

// attacks has the attack of each role. The map is never changed.
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
