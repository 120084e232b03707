// Package eventfd has file descriptors with which one goroutine wakes another goroutine
// that waits for them in epoll_wait; see eventfd(2).
package eventfd
