//go:build linux

package hostile

// Roles of attackers on the local path.
const (
	// RoleSquatter binds the name of Addr in the abstract namespace and listens on it.
	// Clients look for a server on the exact address first, then on the wildcard.
	RoleSquatter Role = "squatter"
	// RoleForger sends requests with a source address that it does not hold.
	RoleForger Role = "forger"
	// RoleBabbler sends malformed packets to the listener.
	RoleBabbler Role = "babbler"
	// RoleCrowd opens as many connections as the server admits, and keeps them.
	RoleCrowd Role = "crowd"
	// RoleScribbler is a client that writes random bytes into all memory that it
	// shares with the server.
	RoleScribbler Role = "scribbler"
)

// Roles of attackers on the wire path. They send from the address Spec.From.
const (
	// RoleFlood sends connection requests from many addresses, Spec.Sources of them
	// beginning with From, and never answers the replies.
	RoleFlood Role = "flood"
	// RoleNoise sends invalid packets: random bytes, damaged packets and random messages.
	RoleNoise Role = "noise"
	// RoleHoarder makes connections from one address, and keeps them without sending
	// anything.
	RoleHoarder Role = "hoarder"
	// RoleHalves makes Conns connections, and sends half of a message on each.
	RoleHalves Role = "halves"
	// RoleVandal makes connections, and sends packets on them that violate the protocol.
	RoleVandal Role = "vandal"
	// RoleInjector makes one honest connection, and sends messages from another address
	// that could end it.
	RoleInjector Role = "injector"
	// RoleMadWireServer answers connection requests to From with wrong replies.
	RoleMadWireServer Role = "mad wire server"
)

// attacks maps each role to its attack. It is never changed.
var attacks = map[Role]attack{
	RoleSquatter:  squat,
	RoleForger:    forge,
	RoleBabbler:   babble,
	RoleCrowd:     crowd,
	RoleScribbler: scribble,
	RoleFlood:     flood,
	RoleNoise:     noise,
	RoleHoarder:   hoard,
	RoleHalves:    halves,
	RoleVandal:    vandalize,
	RoleInjector:  inject,

	RoleMadWireServer: misanswer,
}
