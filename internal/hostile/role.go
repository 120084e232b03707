//go:build linux

package hostile

import "fmt"

// A Role is the name of the work that a child process does.
type Role string

// Roles of servers and clients. Only RoleCorruptingServer breaks the protocol.
const (
	// RoleServer sends every message back.
	RoleServer Role = "server"
	// RoleGnetServer sends every byte back, with a handler of gnet.
	RoleGnetServer Role = "gnet server"
	// RoleClient sends messages and checks the echoes.
	RoleClient Role = "client"
	// RoleCorruptingServer writes random bytes into all memory shared with its clients.
	RoleCorruptingServer Role = "corrupting server"
	// RoleStreamServer sends all bytes of its streams back.
	RoleStreamServer Role = "stream server"
	// RoleStreamCallbacks is RoleStreamServer with callbacks instead of a Network.
	RoleStreamCallbacks Role = "stream server with callbacks"
	// RoleTarget is an NVMe target, and RoleHost a host that writes blocks and reads them
	// back.
	RoleTarget Role = "NVMe target"
	RoleHost   Role = "NVMe host"
	// RoleStreamClient sends messages on streams and checks the echoes.
	RoleStreamClient Role = "stream client"
)

func newRole(name string) (role, error) {
	switch r := Role(name); r {
	case RoleServer:
		return &server{}, nil
	case RoleGnetServer:
		return &gnetServer{}, nil
	case RoleClient:
		return &client{}, nil
	case RoleCorruptingServer:
		return &corruptingServer{}, nil
	case RoleStreamServer:
		return &streamServer{}, nil
	case RoleStreamCallbacks:
		return &streamCallbacks{}, nil
	case RoleTarget:
		return &nvmeTarget{}, nil
	case RoleHost:
		return &nvmeHost{}, nil
	case RoleStreamClient:
		return &streamClient{}, nil
	default:
		if attack := attacks[r]; attack != nil {
			return &attacker{attack: attack}, nil
		}
	}
	return nil, fmt.Errorf("no role %q", name)
}
