// Package epollset has sets of descriptors. Each descriptor has a handler. One owner
// waits for all of them. See epoll(7).
package epollset
