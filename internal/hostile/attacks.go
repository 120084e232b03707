//go:build linux

package hostile

// Roles of attackers on the local path.
const (
	// RoleSquatter binds the name of Addr in the abstract namespace before the
	// clients of the server on the wildcard address look there, and listens.
	RoleSquatter Role = "squatter"
	// RoleForger sends requests that name another source than the sender has.
	RoleForger Role = "forger"
	// RoleBabbler sends the listener what is no request, and half of one.
	RoleBabbler Role = "babbler"
	// RoleCrowd connects as often as it is let in, and keeps what it got.
	RoleCrowd Role = "crowd"
	// RoleScribbler is a client that writes random bytes into all memory that it
	// shares with the server.
	RoleScribbler Role = "scribbler"
)

// Roles of attackers on the wire path. They send from the address From.
const (
	// RoleFlood sends connection requests from many addresses, Sources of them
	// beginning with From, and follows none up.
	RoleFlood Role = "flood"
	// RoleNoise sends packets that no protocol asks for.
	RoleNoise Role = "noise"
	// RoleHoarder makes connections from one address, and keeps them in silence.
	RoleHoarder Role = "hoarder"
	// RoleHalves makes Conns connections, and sends half of a message on each.
	RoleHalves Role = "halves"
	// RoleVandal makes connections, and breaks the rules on them.
	RoleVandal Role = "vandal"
	// RoleInjector makes one honest connection, and sends from another address
	// what could end it.
	RoleInjector Role = "injector"
	// RoleMadWireServer answers connection requests to From in wrong ways.
	RoleMadWireServer Role = "mad wire server"
)

// attacks are the attacks by their role. The table is never changed.
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
