// Package epollset has sets of descriptors that one owner waits for, with a handler for
// the events of each descriptor. See epoll(7).
package epollset
