// Package peerproc runs a copy of the test binary as another process, the peer of the
// test, which may belong to another user.
package peerproc
