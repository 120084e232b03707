// Package epollset has sets of descriptors. One owner waits for all descriptors of a set,
// and each descriptor has a handler for its events. See epoll(7).
package epollset

// The files of this package, in reading order:
//
//	set_unsafe.go  epoll_wait(2) that never blocks
//	set.go         Set: descriptors with their handlers
