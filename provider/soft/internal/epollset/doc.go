// Package epollset waits for events of many descriptors, and calls the handler of each
// ready descriptor. See epoll(7).
package epollset
