// Package eventfd has descriptors that wake a goroutine in epoll_wait. See eventfd(2).
package eventfd
