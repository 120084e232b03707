// Package eventfd has descriptors with which one goroutine wakes another one that waits
// in epoll; see eventfd(2).
package eventfd
