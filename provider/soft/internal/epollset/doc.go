// Package epollset has sets of descriptors. One owner waits for all descriptors of a set,
// and each descriptor has a handler for its events. See epoll(7).
package epollset
