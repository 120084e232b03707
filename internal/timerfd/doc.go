// Package timerfd has timers that are file descriptors, so that epoll can wait for them.
// See timerfd_create(2). The timers use CLOCK_MONOTONIC, the same clock as package time.
package timerfd
