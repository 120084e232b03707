//go:build linux

package hostile

import "fmt"

// A Role is the name of the work of a child process.
type Role string

// Roles of honest processes, and of a server on the local path that is not.
const (
	// RoleServer sends every message back.
	RoleServer Role = "server"
	// RoleClient sends messages, and compares the echoes.
	RoleClient Role = "client"
	// RoleMadServer is a server that writes random bytes into all memory that it
	// shares with its clients.
	RoleMadServer Role = "mad server"
)

func newRole(name string) (role, error) {
	switch r := Role(name); r {
	case RoleServer:
		return &server{}, nil
	case RoleClient:
		return &client{}, nil
	case RoleMadServer:
		return &madServer{}, nil
	default:
		if attack := attacks[r]; attack != nil {
			return &attacker{attack: attack}, nil
		}
	}
	return nil, fmt.Errorf("there is no role %q", name)
}
