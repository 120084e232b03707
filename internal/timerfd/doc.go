// Package timerfd has timers that epoll can wait for: each timer is a descriptor. See
// timerfd_create(2). The timers use CLOCK_MONOTONIC, as package time does.
package timerfd
