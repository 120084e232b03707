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
	// Path is the path that the device uses. On PathWire, From is the source address of
	// a client or an attacker.
	Path soft.Path
	From netip.Addr
	// Addr is the address at which a server listens. A client or an attacker dials it.
	Addr netip.AddrPort
	// SecondAddr is the address of a second server. The client opens Conns connections to
	// each of the two servers. The connections to the second server are expendable: see
	// the field Expendable. The zero value means that there is no second server.
	SecondAddr netip.AddrPort
	// Seed is the seed of the pseudo-random numbers: equal seeds give equal messages and
	// attacks.
	Seed uint64

	// Conns is the number of connections. Zero means 1.
	Conns int
	// MaxInFlight is the maximum number of messages that a client has in flight on one
	// connection. Zero means 4.
	MaxInFlight int
	// Pause is the time between two bursts of messages that a client sends. Zero means 2
	// ms.
	Pause time.Duration
	// Messages is the number of messages that a client sends on one connection. When it
	// has received all their echoes, it closes the connection and dials again. Zero means
	// that the client keeps the connection.
	Messages int
	// Expendable means that an attack may end the client's connections. When a
	// connection ends, the client dials again, and counts the end in Tally.Ends, not in
	// Tally.Failed.
	Expendable bool
	// RecordDials makes a client record in Tally.DialTimes how long each connection
	// took to open.
	RecordDials bool
	// Rounds is the number of times that an attacker repeats its attack. Zero means that
	// it continues until the parent orders it to finish.
	Rounds int
	// Interval is the pause of an attacker between two rounds.
	Interval time.Duration
	// OwnAddress makes an address spoofer send requests with its own address instead of a
	// false one. If the server accepts these, a test knows that the server refuses the
	// other requests because of their false address.
	OwnAddress bool
	// NoDisconnect makes an attacker exit without closing its connections. The server
	// notices the end of the attacker only later, after up to a minute.
	NoDisconnect bool
	// Sources is the number of source addresses of a flood. They belong to 127.0.0.0/8.
	Sources int

	// AnyUser makes a server accept clients that run as any user.
	AnyUser bool
	// MaxConnsPerAddress is passed to a server as soft.Config.MaxConnsPerAddress.
	MaxConnsPerAddress int
	// SharedRecvBuffers is passed to a server as reactor.Config.SharedRecvBuffers.
	SharedRecvBuffers int
	// MaxConns is passed to a server as reactor.Config.MaxConns.
	MaxConns int
	// Keepalive and ConnectTimeout are passed to a server or a client as the fields of
	// reactor.Config with the same names.
	Keepalive, ConnectTimeout time.Duration
	// Descriptors is the limit of open descriptors (RLIMIT_NOFILE) for the child. Zero
	// means that the limit is not changed.
	Descriptors uint64
}

// An order is a command that the parent sends to the child after the Spec.
type order string

// Orders. The child answers each with one Note.
const (
	orderReport order = "report" // The child answers with its present counters.
	// The child answers when all rounds of the attack are finished.
	orderAwait order = "await"
	// The child finishes, answers with the final counters, and exits.
	orderFinish order = "finish"
)

// A Note is an answer of a child.
type Note struct {
	// Err is the text of the error if the order failed. It is empty on success.
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

// A Tally has the counters of a client since its start.
type Tally struct {
	// Echoes is the number of messages that came back unchanged.
	Echoes uint64
	// Lost is the number of messages that were sent but did not come back. It includes
	// the messages of failed connections, but not those of expendable connections.
	Lost uint64
	// Damaged is the number of echoes that differ from the message that was sent. Echoes
	// that arrive when no message is outstanding count too. Echoes on expendable
	// connections do not count.
	Damaged uint64
	// Failed is the number of connections that did not open, or that ended before the
	// client closed them. The failed connections of an expendable client are counted in
	// Ends instead.
	Failed, Ends uint64
	// Opened is the number of connections that have opened.
	Opened uint64
	// Longest is the longest time between sending a message and receiving its echo.
	Longest time.Duration
	// DialTimes has the time that each connection took to open, in the order in which
	// they opened. It is empty unless Spec.RecordDials is set.
	DialTimes []time.Duration `json:",omitempty"`
	// Cause is the error of the first connection that was counted in Failed.
	Cause string `json:",omitempty"`
}

// A ServerState has the counters of a server.
type ServerState struct {
	Conns  uint64 // Number of connections that are open, opening or closing.
	Opened uint64
	// Number of connection requests that were passed to the application.
	Requests   uint64
	Goroutines int
	// Longest is the duration of the longest turn of the loop of the server.
	Longest  time.Duration
	Counters map[string]uint64 // Counters of the device by name; see package soft.
}

// An Attack has the counters of an attacker.
type Attack struct {
	Rounds uint64 // Number of finished rounds of the attack.
	// Number of packets, requests or writes that the attacker has sent or made.
	Sent      uint64
	SentBytes uint64
	// Number of packets from the server that the attacker has received.
	Received      uint64
	ReceivedBytes uint64
	// Number of connections that have opened, or of requests that the server has
	// accepted.
	Admitted uint64
	// Number of connections that the server has refused or closed.
	Refused uint64
}
