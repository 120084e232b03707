// Package eventfd has descriptors that one goroutine makes readable in order to wake
// another one, which waits for them in epoll; see eventfd(2).
package eventfd
