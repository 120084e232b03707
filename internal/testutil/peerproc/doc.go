// Package peerproc starts a second process for a test, the peer process. It runs the same
// test binary, and may belong to another user.
package peerproc
