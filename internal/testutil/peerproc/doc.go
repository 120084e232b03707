// Package peerproc starts a test's binary again, as the test's peer process. The peer
// may belong to another user.
package peerproc
