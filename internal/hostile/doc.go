// Package hostile attacks the library from other processes. Meanwhile a correct client
// checks that it loses no message and no connection. The tests (make hostile) and the
// program internal/hostile/soak (make soak) use this package.
//
// The server, the clients and the attackers are processes. To start one, the test program
// starts itself again with the environment variable RoleEnv.
//
//   - The parent writes a Spec to the child's standard input, and orders after it.
//   - The child answers the Spec and each order with a Note on its standard output.
//   - The child exits when its standard input ends or its parent exits.
//
// The server is an echo server on package reactor. A client compares every byte of the
// echoes. Most attackers do not use the library. They build their packets themselves.
package hostile
