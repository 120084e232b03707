// Package timerfd has timers that are file descriptors, for use with epoll. They use
// CLOCK_MONOTONIC. Source: timerfd_create(2).
package timerfd
