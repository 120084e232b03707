// Package peerproc starts a test's binary again, as a process that is the test's peer.
// The peer may belong to another user.
package peerproc
