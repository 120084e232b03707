// Package hostile attacks the library from other processes. Meanwhile a client that uses
// the same server checks that it loses no message and no connection. The tests of this
// package (make hostile) and the program internal/soak (make soak) use it.
//
// A test has a server, clients and attackers, each in its own process. To start one of
// these processes, the test program starts itself again, and sets the environment
// variable RoleEnv to the role of the child. The parent sends a Spec to the standard
// input of the child, and after the Spec it sends orders. The child answers the Spec and
// each order with a Note on its standard output. A child exits at the end of its standard
// input. The kernel kills a child whose parent has exited.
//
// The server is an echo server on package reactor. A client sends messages to the server
// and compares every byte of the echoes. The attacker that corrupts shared memory runs
// such a client too, because it needs valid connections. The other attackers do not use
// the library: they build their packets themselves.
package hostile
