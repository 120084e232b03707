//go:build linux

package hostile

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// RoleEnv is the environment variable that makes a program a child: its value is the
// name of the role.
const RoleEnv = "RDMALOOP_HOSTILE_ROLE"

// A Spec configures a child. A role ignores the fields that it does not use.
type Spec struct {
	// Path is the path of the device. On PathWire, a client or attacker sends from the
	// address From.
	Path soft.Path
	From netip.Addr
	// Addr is the address at which a server listens, and which a client or attacker
	// dials.
	Addr netip.AddrPort
	// Also is the address of a second server. A client opens as many connections to it as
	// to Addr; these may end: see Expendable. The zero value means no second server.
	Also netip.AddrPort
	// Seed is the seed of the pseudo-random numbers: equal seeds give equal messages and
	// attacks.
	Seed uint64

	// Conns is the number of connections. Zero means 1.
	Conns int
	// Window is how many messages a client has in flight on one connection at most. Zero
	// means 4.
	Window int
	// Pace is the pause of a client between two bursts of messages. Zero means 2 ms.
	Pace time.Duration
	// Messages is the number of echoes after which a client closes a connection and dials
	// again. Zero means that it never does.
	Messages int
	// Expendable means that an attack may end the client's connections. The client then
	// dials again, and counts the end in Tally.Ends instead of Tally.Failed.
	Expendable bool
	// Timed makes a client record in Tally.Took how long each connection took to open.
	Timed bool
	// Rounds is how often an attacker repeats its attack. Zero means until the parent
	// orders it to finish.
	Rounds int
	// Interval is the pause between two rounds.
	Interval time.Duration
	// Honest makes a forger name the address that it holds. A test uses it to show that
	// the server refuses forged requests for their address only.
	Honest bool
	// Rude means that an attacker ends without closing its connections. The server takes
	// a minute to notice.
	Rude bool
	// Sources is the number of addresses, of 127.0.0.0/8, from which a flood comes.
	Sources int

	// AnyUser makes a server admit clients of every user.
	AnyUser bool
	// MaxConnsPerAddress is passed to a server as soft.Config.MaxConnsPerAddress.
	MaxConnsPerAddress int
	// SRQ is passed to a server as reactor.Config.SRQ.
	SRQ int
	// MaxConns is passed to a server as reactor.Config.MaxConns.
	MaxConns int
	// Keepalive and ConnectTimeout are passed to a server or client as the fields of
	// reactor.Config with these names.
	Keepalive, ConnectTimeout time.Duration
	// Descriptors is the limit of open descriptors (RLIMIT_NOFILE) of the child. Zero
	// keeps the limit.
	Descriptors uint64
}

// An order is a command from the parent, sent after the Spec.
type order string

// Orders. The child answers each with one Note.
const (
	orderReport order = "report" // order to answer with the counters
	orderAwait  order = "await"  // order to answer when the rounds of the attack are over
	orderFinish order = "finish" // finish, answer with the final counters, and exit
)

// A Note is an answer of a child.
type Note struct {
	// Err says why the child could not do what it was ordered to. It is empty on success.
	Err string `json:",omitempty"`
	// Addr is the address at which a server listens.
	Addr netip.AddrPort `json:",omitzero"`
	// Tally has the counters of a client.
	Tally Tally `json:",omitzero"`
	// Server has the counters of a server.
	Server ServerState `json:",omitzero"`
	// Attack has the counters of an attacker.
	Attack Attack `json:",omitzero"`
}

// A Tally has what a client has counted since its start.
type Tally struct {
	// Echoes counts messages that came back unchanged.
	Echoes uint64
	// Lost counts messages that did not come back, including those of failed connections.
	Lost uint64
	// Damaged counts echoes that differ from the sent message, or that no message was
	// sent for.
	Damaged uint64
	// Failed counts connections that did not open, or that ended before the client closed
	// them. An expendable client counts such connections in Ends instead.
	Failed, Ends uint64
	// Opened counts connections that were opened.
	Opened uint64
	// Longest is the longest time from sending a message to receiving its echo.
	Longest time.Duration
	// Took is how long each connection took to open, in the order in which they opened.
	// It is empty unless Spec.Timed is set.
	Took []time.Duration `json:",omitempty"`
	// Cause is the error of the first connection counted in Failed.
	Cause string `json:",omitempty"`
}

// A ServerState has the counters of a server.
type ServerState struct {
	Conns      uint64 // connections that are open, opening or closing
	Opened     uint64
	Requests   uint64 // connection requests that reached the application
	Goroutines int
	// Longest is the duration of the longest turn of the server's loop.
	Longest  time.Duration
	Counters map[string]uint64 // counters of the device by name; see package soft
}

// An Attack has the counters of an attacker.
type Attack struct {
	Rounds        uint64 // rounds of the attack that were finished
	Sent          uint64 // packets, requests or writes sent
	SentBytes     uint64
	Received      uint64 // packets received from the server
	ReceivedBytes uint64
	Admitted      uint64 // connections opened, or requests accepted
	Refused       uint64 // connections that were refused or closed by the server
}
