// Package pairtest tests two devices against each other. In each scenario, the active
// side connects and the passive side listens. In an ordinary go test, one process has
// both sides. In the virtual machine of internal/vm, one process uses Soft-RoCE and
// another uses the soft device.
package pairtest
