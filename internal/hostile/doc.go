// Package hostile attacks the library from other processes, while a client checks that
// it loses no message and no connection. The tests of this package (make hostile) and
// the program internal/soak (make soak) use it.
//
// A test has a server, clients and attackers, each in its own process. The program
// starts itself again with the child's role in the environment variable RoleEnv. The
// parent sends a Spec and then orders on the standard input of the child. The child
// answers each with a Note on its standard output. A child exits at the end of its
// standard input, and the kernel kills it when its parent exits.
//
// The server is an echo server on package reactor. A client sends messages to it and
// compares every byte of the echoes. The attacker that corrupts shared memory runs such
// a client, because it first needs valid connections. The other attackers make their
// own packets.
package hostile
