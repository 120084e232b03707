// Package timerfd has timers with a descriptor, which epoll can wait for; see
// timerfd_create(2). Their clock is CLOCK_MONOTONIC, as that of package time.
package timerfd
