// Package peerproc starts the binary of a test a second time, as a process that is the
// peer of the test. The peer process may belong to another user.
package peerproc
