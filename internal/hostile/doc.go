// Package hostile attacks the library from other processes, while a client checks
// that it loses nothing. The tests of this package (make hostile) and the program
// internal/soak (make soak) use it.
//
// A scene has a server, clients and attackers. Each is a process: the program starts
// itself again, and the environment variable RoleEnv says what the child does. The
// parent sends a Spec on the standard input of the child, and later orders; the child
// answers each with a Note on its standard output. A child ends when its standard
// input ends, so that none survives the program, and the kernel kills it when the
// program dies.
//
// The server is an echo server on package reactor. A client sends messages to it, and
// compares every byte that comes back. An attacker that has to keep to the protocol
// first is a client that then writes into the memory that it shares with the server.
// The others write their own packets.
package hostile
