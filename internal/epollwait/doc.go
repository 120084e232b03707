// Package epollwait waits for the events of an epoll descriptor, with timeouts in
// nanoseconds. See epoll_wait(2). It has no functions on systems other than Linux.
package epollwait

// The files of this package, in reading order:
//
//	wait_unsafe.go  system calls
//	wait.go         Waiter
