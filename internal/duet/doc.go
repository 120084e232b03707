// Package duet has tests with two players, one at each end of a link, who play
// the same pieces from their own side: one connects, the other listens. Mostly the
// players are two processes with different devices, such as the kernel's
// Soft-RoCE and the soft device of this module, in a virtual machine. In go test
// both are in one process.
package duet
