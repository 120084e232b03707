// Package shm has the shared memory of a connection between two processes of one host: a
// segment with two rings for each direction, one for requests and one for responses, and
// the sockets by which one process wakes the other.
//
// The other process can write anything into the memory at any time. So this package
// copies each number once before it checks and uses it.
package shm
