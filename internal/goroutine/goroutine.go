// Package goroutine identifies goroutines.
//
// On amd64 and arm64, the number of a goroutine is the address of the runtime's description
// of it, which is in a register or in the storage of the thread. On other processors it is
// the number that a stack trace shows.
package goroutine
