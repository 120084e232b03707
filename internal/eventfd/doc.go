// Package eventfd has descriptors that wake a goroutine in epoll_wait. Source:
// eventfd(2).
package eventfd
