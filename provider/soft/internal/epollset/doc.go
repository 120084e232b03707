// Package epollset has sets of descriptors. Each descriptor has a handler. One owner
// waits for all of them. See epoll(7).
package epollset

// The files of this package, in reading order:
//
//	set_unsafe.go  epoll_wait(2) that never blocks
//	set.go         Set: descriptors with their handlers
