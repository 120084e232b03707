// Package epollwait waits for the events of an epoll descriptor, with timeouts in
// nanoseconds. See epoll_wait(2). It has no functions on systems other than Linux.
package epollwait
