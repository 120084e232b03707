// Package pairtest tests two devices against each other. Each scenario has an active
// side, which connects, and a passive side, which listens. In the virtual machine of
// internal/vm, the sides are two processes: one with the kernel's Soft-RoCE and one with
// the soft device. In an ordinary go test, one process has both sides.
package pairtest
