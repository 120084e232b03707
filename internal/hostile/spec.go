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
	// SecondAddr is the address of a second server. A client opens the same number of
	// connections to it. These may end, as with Expendable. The zero value means no
	// second server.
	SecondAddr netip.AddrPort
	// Seed is the seed of the pseudo-random numbers: equal seeds give equal messages and
	// attacks.
	Seed uint64

	// Conns is the number of connections. Zero means 1.
	Conns int
	// MaxInFlight is how many messages a client has in flight on one connection at
	// most. Zero means 4.
	MaxInFlight int
	// Pause is the time between two bursts of messages of a client. Zero means 2 ms.
	Pause time.Duration
	// Messages is the number of echoes after which a client closes a connection and
	// dials again. Zero means never.
	Messages int
	// Expendable means that an attack may end the client's connections. The client then
	// dials again, and counts the end in Tally.Ends instead of Tally.Failed.
	Expendable bool
	// RecordDials makes a client record in Tally.DialTimes how long each connection
	// took to open.
	RecordDials bool
	// Rounds is how often an attacker repeats its attack. Zero means until the parent
	// orders it to finish.
	Rounds int
	// Interval is the pause between two rounds.
	Interval time.Duration
	// OwnAddress makes an address spoofer send its own address. A test uses it to show
	// that the server refuses the spoofed requests because of their address only.
	OwnAddress bool
	// NoDisconnect means that an attacker exits without closing its connections. The
	// server takes up to a minute to notice.
	NoDisconnect bool
	// Sources is the number of addresses of 127.0.0.0/8 from which a flood comes.
	Sources int

	// AnyUser makes a server accept clients of every user.
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
	orderReport order = "report" // Answer with the counters.
	orderAwait  order = "await"  // Answer when the rounds of the attack are over.
	orderFinish order = "finish" // Finish, answer with the final counters, and exit.
)

// A Note is an answer of a child.
type Note struct {
	// Err is the error of the order. It is empty on success.
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

// A Tally is the counters of a client since its start.
type Tally struct {
	// Echoes is the number of messages that came back unchanged.
	Echoes uint64
	// Lost is the number of messages that did not come back, including those of failed
	// connections.
	Lost uint64
	// Damaged is the number of echoes that differ from the sent message or that belong
	// to no message.
	Damaged uint64
	// Failed is the number of connections that did not open, or that ended before the
	// client closed them. An expendable client counts such connections in Ends instead.
	Failed, Ends uint64
	// Opened is the number of connections that have opened.
	Opened uint64
	// Longest is the longest time from sending a message to receiving its echo.
	Longest time.Duration
	// DialTimes is how long each connection took to open, in the order in which they
	// opened. It is empty unless Spec.RecordDials is set.
	DialTimes []time.Duration `json:",omitempty"`
	// Cause is the error of the first connection counted in Failed.
	Cause string `json:",omitempty"`
}

// A ServerState is the counters of a server.
type ServerState struct {
	Conns      uint64 // Connections that are open, opening or closing.
	Opened     uint64
	Requests   uint64 // Connection requests that reached the application.
	Goroutines int
	// Longest is the duration of the longest turn of the server's loop.
	Longest  time.Duration
	Counters map[string]uint64 // Counters of the device by name; see package soft.
}

// An Attack is the counters of an attacker.
type Attack struct {
	Rounds        uint64 // Finished rounds of the attack.
	Sent          uint64 // Packets, requests or writes sent.
	SentBytes     uint64
	Received      uint64 // Packets received from the server.
	ReceivedBytes uint64
	Admitted      uint64 // Connections opened, or requests accepted.
	Refused       uint64 // Connections that the server refused or closed.
}
