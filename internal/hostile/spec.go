//go:build linux

package hostile

import (
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// RoleEnv is the environment variable with the name of a child's role.
const RoleEnv = "RDMALOOP_HOSTILE_ROLE"

// A Spec configures a child. Each role uses only some of the fields.
type Spec struct {
	// Path is the device's path.
	Path soft.Path
	// From is the source address of a client or attacker on PathWire.
	From netip.Addr
	// Addr is the address of the server.
	Addr netip.AddrPort
	// SecondAddr is the address of a second server, or the zero value. The client opens
	// Conns connections to each server. Its connections to the second server are
	// expendable.
	SecondAddr netip.AddrPort
	// Seed is the seed of the random numbers. Equal seeds give equal messages and
	// attacks.
	Seed uint64

	// Conns is the number of connections. Zero means 1.
	Conns int
	// MaxInFlight is the number of messages that a client may have in flight on one
	// connection. Zero means 4.
	MaxInFlight int
	// Pause is a client's pause between two bursts of messages. Zero means 2 ms.
	Pause time.Duration
	// Messages is the number of messages on one connection. When all are echoed, the
	// client closes the connection and dials again. Zero means that the client keeps the
	// connection.
	Messages int
	// Expendable means that an attack may end the client's connections. The client then
	// dials again and counts the end in Tally.Ends instead of Tally.Failed.
	Expendable bool
	// RecordDials makes a client fill Tally.DialTimes.
	RecordDials bool
	// Rounds is the number of rounds of an attack. Zero means that the parent ends the
	// attack.
	Rounds int
	// Interval is an attacker's pause between two rounds.
	Interval time.Duration
	// OwnAddress makes a spoofer use its true address, which the server must accept.
	OwnAddress bool
	// LongTimeout gives the connections of RoleHalves the longest ACK timeout.
	LongTimeout bool
	// NoDisconnect makes an attacker exit without closing its connections. The server may
	// take up to a minute to notice.
	NoDisconnect bool
	// Hold says how RoleLongHolder delays the READs of the server.
	Hold Hold
	// Sources is the number of source addresses of a flood, in 127.0.0.0/8.
	Sources int

	// AnyUser makes a server accept clients that run as any user.
	AnyUser bool
	// MaxConnsPerAddress is passed to a server as soft.Config.MaxConnsPerAddress.
	MaxConnsPerAddress int
	// MaxConnsPerUser is passed to a server as soft.Config.MaxConnsPerUser.
	MaxConnsPerUser int
	// SharedRecvBuffers is passed to a server as reactor.Config.Memory.SharedRecvBuffers.
	SharedRecvBuffers int
	// MaxLongMessage is passed to a server or client as reactor.Config.MaxLongMessage. If it
	// is not 0, every eighth message of a client is a long message.
	MaxLongMessage int
	// MaxConns is passed to a server as reactor.Config.MaxConns.
	MaxConns int
	// Keepalive, ConnectTimeout, DecisionTimeout and DrainTimeout are passed to a server or
	// client as fields of reactor.Config.
	Keepalive, ConnectTimeout, DecisionTimeout, DrainTimeout time.Duration
	// AckTimeout is passed to a server or client as reactor.Config.Transport.AckTimeout. On the wire
	// path a server without a value uses that of the client.
	AckTimeout time.Duration
	// PrivateRegions is passed to a server or client as a field of soft.Config. A server then
	// has to ask a client for the bytes of each long message.
	PrivateRegions bool
	// Greet makes a server send a message to each client that connects.
	Greet bool
	// Backlog is passed to a stream server as stream.NetworkConfig.Backlog.
	Backlog int
	// Descriptors is the child's limit of open descriptors (RLIMIT_NOFILE). Zero means no
	// change.
	Descriptors uint64
}

// localAddr returns Spec.From with any port. If Spec.From is not set, it returns the zero
// value.
func (s *Spec) localAddr() (addr netip.AddrPort) {
	if s.From.IsValid() {
		addr = netip.AddrPortFrom(s.From, 0)
	}
	return addr
}

// An order is a command from the parent to the child.
type order string

// Orders. The child answers each with one Note.
const (
	orderReport order = "report" // answer with the present counters
	// Answer with the counters when all rounds are finished.
	orderAwait order = "await"
	// Finish, answer with the final counters, and exit.
	orderFinish order = "finish"
)

// A Note is an answer of a child.
type Note struct {
	// Err is the text of the error. It is empty on success.
	Err string `json:",omitempty"`
	// Addr is the address on which a server listens.
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
	// Lost is the number of messages that did not come back. Expendable connections do
	// not count.
	Lost uint64
	// Damaged is the number of echoes that differ from their message or were not
	// expected. Expendable connections do not count.
	Damaged uint64
	// Failed is the number of connections that did not open or ended too early.
	// Expendable connections count in Ends instead.
	Failed, Ends uint64
	// Opened is the number of connections that have opened.
	Opened uint64
	// Longest is the longest time from a message to its echo, and P999 the time that 99.9 %
	// of the echoes did not exceed.
	Longest, P999 time.Duration
	times         *echoTimes // nil before the first echo, and in the parent
	// DialTimes has the time that each connection took to open, in the order of opening.
	// It is filled only if Spec.RecordDials is set.
	DialTimes []time.Duration `json:",omitempty"`
	// Cause is the error of the first connection in Failed.
	Cause string `json:",omitempty"`
}

// took records the time of an echo.
func (t *Tally) took(d time.Duration) {
	t.Longest = max(t.Longest, d)
	if t.times == nil {
		t.times = new(echoTimes)
	}
	t.times.add(d)
}

// A ServerState has the counters of a server.
type ServerState struct {
	Conns  uint64 // open, opening or closing connections
	Opened uint64
	// Connection requests that the application got.
	Requests   uint64
	Goroutines int
	// Closed counts the open connections that have ended, by the kind of their error: see
	// kindOf.
	Closed map[string]uint64
	// Duration of the longest turn of the server's loop.
	Longest  time.Duration
	Counters map[string]uint64 // counters of the device by name; see package soft
}

// An Attack has the counters of an attacker.
type Attack struct {
	Rounds uint64 // finished rounds
	// Packets sent to the server. Some attacks count requests or writes instead.
	Sent      uint64
	SentBytes uint64
	// Packets received from the server.
	Received      uint64
	ReceivedBytes uint64
	// Connections that the attacker has opened. Some attacks count accepted requests
	// instead.
	Admitted uint64
	// connections refused or closed by the server
	Refused uint64
	// DialError is the error of the last dial that failed. A server with no room for more
	// connections refuses dials. Only the attacks that violate a protocol set it, and do not
	// count such a connection as Refused.
	DialError string
}
