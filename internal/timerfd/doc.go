// Package timerfd has timers that are file descriptors, for epoll. They use
// CLOCK_MONOTONIC. See timerfd_create(2).
package timerfd
