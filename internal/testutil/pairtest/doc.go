// Package pairtest tests two devices against each other. Each scenario of the tests has
// an active side, which connects, and a passive side, which listens. In the virtual
// machine of internal/vm the sides are two processes with different devices: the
// kernel's Soft-RoCE and the soft device of this module. In an ordinary go test both
// sides are in one process and use the soft device.
package pairtest
