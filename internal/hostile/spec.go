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

// A Spec says what a child does. Fields that the role has no use for are ignored.
type Spec struct {
	// Path is the path of the device. On PathWire, From is the address that a
	// client or attacker sends from.
	Path soft.Path
	From netip.Addr
	// Addr is where a server listens, and whom a client or attacker dials.
	Addr netip.AddrPort
	// Also is a second server. A client has as many connections to it again, which
	// may end: see Expendable. The zero value means none.
	Also netip.AddrPort
	// Seed is that of the pseudo-random numbers: equal seeds give equal messages and
	// attacks.
	Seed uint64

	// Conns is the number of connections. Zero means 1.
	Conns int
	// Window is how many messages of one connection of a client are on their way
	// at most. Zero means 4.
	Window int
	// Pace is the pause of a client between two bursts. Zero means 2 ms.
	Pace time.Duration
	// Messages is after how many echoes a client closes a connection and dials
	// again. Zero means never.
	Messages int
	// Expendable means that an attack may end the client's connections. It then
	// dials again, and counts such an end in Tally.Ends instead of Tally.Failed.
	Expendable bool
	// Timed makes a client keep how long each connection took to open: Tally.Took.
	Timed bool
	// Rounds is how often an attacker repeats its attack. Zero means until it is
	// told to finish.
	Rounds int
	// Interval is the pause between two rounds.
	Interval time.Duration
	// Honest makes a forger name the address that it holds, which shows that its
	// requests are refused for nothing else.
	Honest bool
	// Rude means that an attacker goes without ending its connections, so that the
	// server has to find out. That takes it a minute.
	Rude bool
	// Sources is from how many addresses, of 127.0.0.0/8, a flood comes.
	Sources int

	// AnyUser makes a server admit clients of every user.
	AnyUser bool
	// MaxConnsPerAddress is soft.Config.MaxConnsPerAddress of a server.
	MaxConnsPerAddress int
	// SRQ is reactor.Config.SRQ of a server.
	SRQ int
	// MaxConns is reactor.Config.MaxConns of a server.
	MaxConns int
	// Keepalive and ConnectTimeout are those of reactor.Config, of a server or client.
	Keepalive, ConnectTimeout time.Duration
	// Descriptors is the limit of open descriptors (RLIMIT_NOFILE) of the child.
	// Zero leaves it as it is.
	Descriptors uint64
}

// An order is what the parent tells a child after the Spec.
type order string

// Orders. Each is answered with one Note.
const (
	orderReport order = "report" // say what was counted
	orderAwait  order = "await"  // answer when the rounds of the attack are over
	orderFinish order = "finish" // end in order, say what was counted, exit
)

// A Note is what a child says.
type Note struct {
	// Err is why the child could not do what it was told. Empty means that it did.
	Err string `json:",omitempty"`
	// Addr is where a server listens.
	Addr netip.AddrPort `json:",omitzero"`
	// Tally is what a client has counted.
	Tally Tally `json:",omitzero"`
	// Server is what a server has counted.
	Server ServerState `json:",omitzero"`
	// Attack is what an attacker has counted.
	Attack Attack `json:",omitzero"`
}

// A Tally is what a client has counted since it began.
type Tally struct {
	// Echoes are messages that came back as they were sent.
	Echoes uint64
	// Lost are messages that did not come back, also because their connection failed.
	Lost uint64
	// Damaged are messages that came back with other bytes, or that were never sent.
	Damaged uint64
	// Failed are connections that did not open, or ended before the client closed
	// them. Those of an expendable client are Ends instead.
	Failed, Ends uint64
	// Opened are connections that were opened.
	Opened uint64
	// Longest is the longest time from sending a message to its echo.
	Longest time.Duration
	// Took is how long each connection took to open, in the order of their opening,
	// if Spec.Timed asks for that.
	Took []time.Duration `json:",omitempty"`
	// Cause is the error of the first connection that counted in Failed.
	Cause string `json:",omitempty"`
}

// A ServerState is what a server tells of itself.
type ServerState struct {
	Conns      uint64 // connections that are open, opening or closing
	Opened     uint64
	Requests   uint64 // connection requests that reached the application
	Goroutines int
	// Longest is the longest turn of its loop.
	Longest  time.Duration
	Counters map[string]uint64 // of the device; see package soft
}

// An Attack is what an attacker has counted.
type Attack struct {
	Rounds        uint64 // attacks that were carried out
	Sent          uint64 // packets, requests or writes
	SentBytes     uint64
	Received      uint64 // packets that came back
	ReceivedBytes uint64
	Admitted      uint64 // connections, or requests that were accepted
	Refused       uint64 // connections that were refused or hung up on
}
