// Package pairtest tests two devices against each other. Each scenario has an active
// side, which connects, and a passive side, which listens. In an ordinary go test, one
// process has both sides. In the virtual machine of internal/vm, one process uses
// Soft-RoCE and another process uses the soft device.
package pairtest
